"""A server like the part of Canvas' REST API that `grader push` uses, after its documentation.

It speaks HTTP on localhost, and can fail in the ways in which servers and networks fail.
"""

import json
import re
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "7~SecretSecretSecret"
TEACHER = 900
LATE_POINTS = 2.0  # what the late policy takes


class FakeCanvas:
    """The state of the server, and what a test may change.

    `faults` are for the next requests whose line contains a text: a status, "lost" (the connection
    ends before an answer), "cut" (the answer ends early), "throttle", or a function of the handler.
    """

    def __init__(self, students):
        self.submissions = {user: self.submission(user) for user in students}
        self.course = {"id": 1, "name": "CS", "workflow_state": "available", "concluded": False}
        self.assignment = {"id": 2, "name": "PyTorch", "grading_type": "points"}
        self.assignment |= {"points_possible": 7.0, "published": True}
        self.deducts = False
        self.log, self.faults, self.jobs = [], deque(), {}
        self.page, self.looks, self.poison, self.quota = 3, 1, set(), 600.0
        self.lock = threading.Lock()
        self.url = ""

    @staticmethod
    def submission(user):
        nothing = ("score", "entered_score", "points_deducted", "grade", "late_policy_status")
        known = {"user_id": user, "excused": False, "late": False, "submission_comments": []}
        return {**dict.fromkeys(nothing), **known, "workflow_state": "unsubmitted"}

    @property
    def address(self):
        return f"{self.url}/courses/1/assignments/2"

    def scores(self):
        return {user: one["score"] for user, one in self.submissions.items()}

    def comments(self):
        return {
            user: [comment["comment"] for comment in one["submission_comments"]]
            for user, one in self.submissions.items()
        }

    def comment_counts(self):
        return [len(comments) for comments in self.comments().values()]

    def posts(self):
        return [line for line in self.log if line.startswith("POST")]

    def grade(self, user, given):
        """Grade and comment on one submission, as a job or a request does."""
        one = self.submissions[user]
        assert given.keys() <= {"posted_grade", "text_comment"}, given
        if "posted_grade" in given:
            points = float(given["posted_grade"])
            is_late = one["late"] and one["late_policy_status"] != "none" and self.deducts
            taken = LATE_POINTS if is_late else 0.0
            one |= {"entered_score": points, "score": points - taken, "points_deducted": taken}
            one |= {"grade": str(points - taken), "excused": False, "workflow_state": "graded"}
        if "text_comment" in given:
            number = sum(len(one["submission_comments"]) for one in self.submissions.values())
            comment = {"id": number, "author_id": TEACHER, "comment": given["text_comment"]}
            one["submission_comments"].append(comment)

    def queue(self, grades):
        number = len(self.jobs) + 1
        self.jobs[number] = {"grades": grades, "looks": self.looks, "workflow_state": "queued"}
        return self.progress(number)

    def look(self, number):
        """Look at a job, which runs after some looks."""
        job = self.jobs[number]
        job["looks"] -= 1
        if job["looks"] <= 0 and job["workflow_state"] == "queued":
            self.run(number)
        return self.progress(number)

    def run(self, number):
        """Run a job: students whom Canvas does not know are skipped, and it fails in the end."""
        job, missing = self.jobs[number], []
        for user, given in job["grades"].items():
            if user in self.poison:
                job |= {"workflow_state": "failed", "message": "\x1b[31munexpected error"}
                return
            if user in self.submissions:
                self.grade(user, given)
            else:
                missing.append(f"'{user}'")
        job["workflow_state"] = "failed" if missing else "completed"
        if missing:
            job["message"] = f"Couldn't find User(s) with API ids {', '.join(missing)}"

    def run_all(self):
        for number, job in self.jobs.items():
            if job["workflow_state"] == "queued":
                self.run(number)

    def progress(self, number):
        job = self.jobs[number]
        told = {"workflow_state": job["workflow_state"], "message": job.get("message")}
        url = f"{self.url}/api/v1/progress/{number}"
        return {"id": number, "tag": "submissions_update", "url": url, **told}


class Handler(BaseHTTPRequestHandler):
    canvas: FakeCanvas

    def do_GET(self):
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if not self._may():
            return None
        assignment = "/api/v1/courses/1/assignments/2"
        if path == "/api/v1/courses/1":
            return self.answer(200, self.canvas.course)
        if path == "/api/v1/courses/1/late_policy":
            found = {"late_policy": {"late_submission_deduction_enabled": True}}
            return self.answer(200, found) if self.canvas.deducts else self.missing()
        if path == assignment:
            return self.answer(200, self.canvas.assignment)
        if path == f"{assignment}/submissions":
            return self.submissions(query)
        if match := re.fullmatch(r"/api/v1/progress/(\d+)", path):
            return self.answer(200, self.canvas.look(int(match[1])))
        return self.missing()

    def do_POST(self):
        form = self.form()
        if not self._may():
            return None
        if not self.path.endswith("/assignments/2/submissions/update_grades"):
            return self.missing()
        grades = {}
        for name, value in form.items():
            user, field = re.fullmatch(r"grade_data\[(\d+)\]\[(\w+)\]", name).groups()
            grades.setdefault(int(user), {})[field] = value[0]
        if not grades:
            return self.answer(400, {"error": "'grade_data' parameter required"})
        return self.answer(200, self.canvas.queue(grades))

    def do_PUT(self):
        form = self.form()
        if not self._may():
            return None
        user = int(self.path.rpartition("/")[2])
        assert form == {"submission[late_policy_status]": ["none"]}
        one = self.canvas.submissions[user]
        one |= {"late_policy_status": "none", "late": False, "points_deducted": 0.0}
        one["score"] = one["entered_score"]
        return self.answer(200, one)

    def submissions(self, query):
        """A page of the list, with links to the others; the links' form is opaque to a client."""
        assert query["include[]"] == ["submission_comments"]
        size = min(int(query.get("per_page", ["10"])[0]), self.canvas.page)
        start = int(query.get("page", ["bookmark:0"])[0].removeprefix("bookmark:"))
        found = sorted(self.canvas.submissions.values(), key=lambda one: one["user_id"])
        base = f"{self.canvas.url}{urlsplit(self.path).path}?include[]=submission_comments&page="
        links = [f'<{base}bookmark:{start}&per_page={size}>; rel="current"']
        if start + size < len(found):
            links.append(f'<{base}bookmark:{start + size}&per_page={size}>; rel="next"')
        links.append(f'<{base}bookmark:0&per_page={size}>; rel="first"')
        self.answer(200, found[start : start + size], link=",".join(links))

    def form(self):
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        return parse_qs(content, strict_parsing=True)

    def missing(self):
        self.answer(404, {"errors": [{"message": "The specified resource does not exist."}]})

    def _may(self):
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self.answer(401, {"errors": [{"message": "Invalid access token."}]}, sign_in=True)
        return False

    def answer(self, status, tree, *, link="", sign_in=False):
        canvas = self.canvas
        line = f"{self.command} {urlsplit(self.path).path}"
        fault = None
        if canvas.faults and canvas.faults[0][0] in line:
            fault = canvas.faults.popleft()[1]
        if callable(fault):
            fault = fault(self)
        body = json.dumps(tree).encode()
        kind = "application/json; charset=utf-8"
        if fault == "throttle":
            status, kind, body = 403, "text/plain", b"403 Forbidden (Rate Limit Exceeded)\n"
        elif isinstance(fault, int):
            status, said = fault, "user not authorized to perform that action"
            body = json.dumps({"errors": [{"message": said}]}).encode()
        canvas.log.append(f"{line} {fault if isinstance(fault, str) else status}")
        if fault == "lost":
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) + 50 * (fault == "cut")))
        quota = "0.0" if fault == "throttle" else str(canvas.quota)
        self.send_header("x-rate-limit-remaining", quota)
        self.send_header("X-Request-Cost", "0.25")
        if link:
            self.send_header("link", link)
        if sign_in:
            self.send_header("WWW-Authenticate", 'Bearer realm="canvas-lms"')
        if isinstance(fault, int) and 300 <= fault < 400:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def serving(canvas):
    """Serve a Canvas on a free port of localhost."""
    handler = type("HandlerOfOne", (Handler,), {"canvas": canvas})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    canvas.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield canvas
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
