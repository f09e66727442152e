"""A server like the part of Canvas' REST API that `grader push` uses, after its documentation.

It speaks HTTP on localhost, and can fail in the ways in which servers and networks fail.
"""

import json
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
    ends before an answer), "cut" (the answer ends early) or "throttle". `poison` has a status for
    each student whom Canvas refuses. What Canvas does not carry out at once is `waiting`.
    """

    def __init__(self, students):
        self.submissions = {user: self.submission(user) for user in students}
        self.course = {"name": "CS", "concluded": False}
        self.assignment = {"name": "PyTorch", "points_possible": 7.0, "published": True}
        self.deducts = False
        self.log, self.faults, self.waiting = [], deque(), []
        self.page, self.poison, self.carries_out, self.url = 3, {}, True, ""

    @staticmethod
    def submission(user):
        nothing = ("score", "entered_score", "points_deducted", "late_policy_status")
        known = {"user_id": user, "excused": False, "late": False, "submission_comments": []}
        return {**dict.fromkeys(nothing), **known}

    @property
    def address(self):
        return f"{self.url}/courses/1/assignments/2"

    def scores(self):
        return {user: one["score"] for user, one in self.submissions.items()}

    def comments(self, user):
        return [comment["comment"] for comment in self.submissions[user]["submission_comments"]]

    def comment_counts(self):
        return [len(self.comments(user)) for user in self.submissions]

    def writes(self):
        return [line for line in self.log if line.startswith("PUT")]

    def give(self, user, given):
        one = self.submissions[user]
        if given.pop("submission[late_policy_status]", ""):
            one |= {"late_policy_status": "none", "late": False, "points_deducted": 0.0}
            one["score"] = one["entered_score"]
        if points := given.pop("submission[posted_grade]", ""):
            is_late = one["late"] and one["late_policy_status"] != "none" and self.deducts
            taken = LATE_POINTS if is_late else 0.0
            one |= {"entered_score": float(points), "score": float(points) - taken}
            one |= {"points_deducted": taken, "excused": False}
        if text := given.pop("comment[text_comment]", ""):
            one["submission_comments"].append({"author_id": TEACHER, "comment": text})
        assert not given

    def give_later(self):
        while self.waiting:
            self.give(*self.waiting.pop())


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
        return self.missing()

    def do_PUT(self):
        form = {name: value[0] for name, value in self.form().items()}
        if not self._may():
            return None
        user = int(self.path.rpartition("/")[2])
        if status := self.canvas.poison.get(user):
            told = {"errors": [{"message": "\x1b[31munexpected error"}]}
            return self.answer(status, told)
        if not self.is_throttled():
            self.canvas.waiting.append((user, form))
            if self.canvas.carries_out:
                self.canvas.give_later()
        return self.answer(200, self.canvas.submissions[user])

    def is_throttled(self):
        return self.canvas.faults and self.canvas.faults[0][1] in ("throttle", 429)

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
