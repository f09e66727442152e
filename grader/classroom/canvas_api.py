"""Requests to Canvas' REST API, with a token that goes to one host and into no text.

The facts are from the "Canvas LMS REST API Documentation": Submissions, Assignments, Courses, Late
Policy, Pagination and Throttling. Canvas limits each token. Our requests run one at a time, which
is within the limit, and are repeated after "403 Forbidden (Rate Limit Exceeded)".

A redirect is never followed, and neither is a link to another host.
"""

import http.client
import json
import os
import re
import socket
import ssl
import stat
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

import msgspec

from grader import __version__
from grader.base import interrupts
from grader.base.errors import MachineFault, UsageError
from kit.safe_text import one_line

Decoded = TypeVar("Decoded")

ADDRESS = re.compile(
    r"(?P<base>(?P<scheme>https?)://(?P<host>[a-z0-9.-]+)(:\d{1,5})?)"
    r"/courses/(?P<course>\d{1,18})/assignments/(?P<assignment>\d{1,18})/?([?#].*)?",
    re.ASCII | re.IGNORECASE,
)
LOCAL = ("localhost", "127.0.0.1")  # for tests: a token may go there without TLS
TOKEN = re.compile(r"[\x21-\x7e]{1,500}")
NEXT = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next\b', re.IGNORECASE)
SECONDS = 60.0  # without a byte of an answer
FIRST_SECONDS = 10.0  # the same, before the first answer
# Why a host that never answered need not be asked again.
UNREACHABLE = (ConnectionRefusedError, TimeoutError, socket.gaierror, ssl.SSLError)
ANSWER_SECONDS = 300.0  # for a whole answer
TRIES = 7  # of one request, with waits of 1, 2, 4, … seconds between them
MOST_BYTES = 8 * 2**20  # of an answer: 100 submissions with comments of 80 kB each
MOST_OF_A_LIST = 64 * 2**20
MOST_PAGES = 1_000


class CanvasUnclear(Exception):
    """The outcome of a request is unknown: Canvas may or may not have carried it out."""


class CanvasRefused(UsageError):
    """Canvas refuses one request, and may accept others."""


class _Throttled(Exception):
    """Canvas refused a request because of their number."""


class CanvasCourse(msgspec.Struct, frozen=True):
    name: str = ""
    concluded: bool = False


class CanvasAssignment(msgspec.Struct, frozen=True):
    name: str = ""
    points_possible: float | None = None
    grading_type: str = "points"
    published: bool = True
    in_closed_grading_period: bool = False
    group_category_id: int | None = None
    grade_group_students_individually: bool = False
    moderated_grading: bool = False
    grades_published: bool = False
    post_manually: bool = False


class CanvasComment(msgspec.Struct, frozen=True):
    author_id: int | None = None
    comment: str | None = None


class CanvasSubmission(msgspec.Struct, frozen=True):
    """A student's submission in Canvas, which also exists if nothing was handed in."""

    user_id: int | None = None  # the student; None if the grading is anonymous
    entered_score: float | None = None  # those that were given, before that policy
    points_deducted: float | None = None  # by Canvas' late policy
    excused: bool | None = None
    late: bool | None = None
    late_policy_status: str | None = None  # what a person said: late, missing, extended, none
    submission_comments: list[CanvasComment] = []


@dataclass(frozen=True)
class CanvasPlace:
    base: str
    course: int
    assignment: int

    def __str__(self) -> str:
        return f"{self.base}/courses/{self.course}/assignments/{self.assignment}"


def place_of(address: str) -> CanvasPlace:
    """The assignment with this address, as the browser shows it; a UsageError without TLS."""
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise UsageError(
            "--assignment: expected the assignment's address, such as "
            "https://canvas.example.edu/courses/12/assignments/345"
        )
    if match["scheme"].lower() != "https" and match["host"].lower() not in LOCAL:
        raise UsageError("--assignment: the address must begin with https://")
    return CanvasPlace(match["base"].lower(), int(match["course"]), int(match["assignment"]))


def read_token(path: Path | None) -> str:
    """The token, from a file that only its owner can read, or CANVAS_TOKEN; or a UsageError."""
    found = os.environ.get("CANVAS_TOKEN", "") if path is None else _token_in(path)
    if not found:
        raise UsageError(
            "there is no token: set CANVAS_TOKEN, or name a file of mode 600 with --token-file; "
            "Canvas makes one under Account, Settings, New Access Token"
        )
    if not TOKEN.fullmatch(found):
        raise UsageError("the token has a character that no token of Canvas has")
    return found


def _token_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise UsageError(f"{path}: expected a file")
            if about.st_mode & 0o077 or about.st_uid not in (os.geteuid(), 0):
                raise UsageError(
                    f"{path} has mode {stat.S_IMODE(about.st_mode):o}, so that others may read the "
                    f"token: run `chmod 600 {path}`, and make a new token if others had access"
                )
            return file.read(1_000).decode("ascii", "replace").strip()
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error, so that the token stays with one host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class CanvasApi:
    """One assignment in Canvas, with the access token of somebody who may grade it."""

    def __init__(
        self, place: CanvasPlace, token: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.place = place
        self.sleep = sleep
        self._headers = {
            "Accept": "application/json+canvas-string-ids",
            "User-Agent": f"resource-accounting-grader/{__version__}",
        }
        self._token = token
        is_local = urlsplit(place.base).hostname in LOCAL
        proxies = [urllib.request.ProxyHandler({})] if is_local else []
        self._opener = urllib.request.build_opener(_NoRedirect(), *proxies)
        self._has_answered = False

    @property
    def _course(self) -> str:
        return f"{self.place.base}/api/v1/courses/{self.place.course}"

    @property
    def _assignment(self) -> str:
        return f"{self._course}/assignments/{self.place.assignment}"

    def course(self) -> CanvasCourse:
        return self._get(f"{self._course}?include[]=concluded", CanvasCourse)

    def assignment(self) -> CanvasAssignment:
        return self._get(self._assignment, CanvasAssignment)

    def deducts_for_lateness(self) -> bool:
        """Whether the course's late policy takes points; False if there is none to be seen."""
        with suppress(UsageError):
            found = self._get(f"{self._course}/late_policy", dict[str, dict[str, Any]])
            return bool(found.get("late_policy", {}).get("late_submission_deduction_enabled"))
        return False

    def submissions(self) -> list[CanvasSubmission]:
        """Every student's submission with its comments, page after page."""
        url = f"{self._assignment}/submissions?include[]=submission_comments&per_page=100"
        return list(self._pages(url, CanvasSubmission))

    def give(self, user: int, fields: Mapping[str, str]) -> None:
        """Grade a student's submission, and comment on it; CanvasUnclear if that may be done."""
        url = f"{self._assignment}/submissions/{user}"
        self._send("PUT", url, fields.items(), again=False)

    def _get(self, url: str, kind: type[Decoded]) -> Decoded:
        return _decoded(self._send("GET", url, (), again=True)[0], kind)

    def _pages(self, url: str, kind: type[Decoded]) -> Iterator[Decoded]:
        """Every item of a list, whose pages are linked by the header Link."""
        left = MOST_OF_A_LIST
        for _ in range(MOST_PAGES):
            body, headers = self._send("GET", url, (), again=True)
            if (left := left - len(body)) < 0:
                raise UsageError(f"Canvas' list is larger than {MOST_OF_A_LIST >> 20} MiB")
            yield from _decoded(body, list[kind])  # type: ignore[valid-type]
            link = NEXT.search(", ".join(headers.get_all("Link", [])))
            if link is None:
                return
            url = link[1]
            if not url.lower().startswith(f"{self.place.base}/"):
                other = one_line(_host_of(url), 100)
                raise UsageError(
                    f"Canvas' next page is at {other}, where the token must not go: give the "
                    "address with that host"
                )
        raise UsageError(f"Canvas' list has more than {MOST_PAGES} pages")

    def _send(
        self, method: str, url: str, fields: Iterable[tuple[str, str]], *, again: bool
    ) -> tuple[bytes, Message]:
        """Send a request until it is answered; return the answer's body and headers.

        Raises:
            CanvasUnclear: The outcome is unknown, and the request may not be sent `again` then.
            UsageError: Canvas refuses the request.
            MachineFault: Canvas did not answer in time.
        """
        why = ""
        for number in range(TRIES):
            interrupts.stop_if_seen()
            try:
                return self._once(method, url, fields)
            except _Throttled:
                why = "it limits the number of requests"
            except CanvasUnclear as e:
                if not again:
                    raise
                why = str(e)
            self.sleep(2.0**number)
        raise MachineFault(f"{self.place.base} did not answer {TRIES} times: {why}")

    def _once(
        self, method: str, url: str, fields: Iterable[tuple[str, str]]
    ) -> tuple[bytes, Message]:
        data = urlencode(list(fields)).encode() or None
        request = urllib.request.Request(url, data, self._headers, method=method)
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        echo = self._token.encode()  # what a server must not make us print
        try:
            wait = SECONDS if self._has_answered else FIRST_SECONDS
            with self._opener.open(request, timeout=wait) as answer:
                self._has_answered = True
                body = _body(answer)
                if answer.length:  # the bytes that are missing
                    raise CanvasUnclear("its answer was cut off")
                return body.replace(echo, b""), answer.headers
        except HTTPError as e:
            self._has_answered = True
            said = b""
            with suppress(OSError, http.client.HTTPException), e:
                said = e.read(10_000)
            raise _refusal(e.code, e.headers, said.replace(echo, b"")) from None
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", None) or e
            why = one_line(str(reason) or type(reason).__name__, 200)
            if not self._has_answered and isinstance(reason, UNREACHABLE):
                raise MachineFault(f"{self.place.base} cannot be reached: {why}") from None
            raise CanvasUnclear(why) from None
        except ValueError as e:
            raise UsageError(f"{self.place.base} is no address: {one_line(str(e), 200)}") from None


def _host_of(url: str) -> str:
    """The host of an address that a server chose; empty if it is none."""
    with suppress(ValueError):
        return urlsplit(url).netloc
    return ""


def _body(answer: http.client.HTTPResponse) -> bytes:
    """An answer's body, however slowly it comes."""
    deadline = time.monotonic() + ANSWER_SECONDS
    body = bytearray()
    while piece := answer.read1(2**16):
        body += piece
        if len(body) > MOST_BYTES:
            raise UsageError(f"an answer of Canvas is larger than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise CanvasUnclear(f"its answer took more than {ANSWER_SECONDS:.0f} seconds")
    return bytes(body)


def _refusal(code: int, headers: Message, body: bytes) -> Exception:
    if code == 429 or (code == 403 and b"rate limit exceeded" in body.lower()):
        return _Throttled()
    if code >= 500:
        return CanvasUnclear(f"it answered {code}")
    if 300 <= code < 400:
        host = one_line(_host_of(headers.get("Location", "")), 100) or "another page"
        return UsageError(f"Canvas redirects to {host}: give the address that it redirects to")
    said = _message(body)
    if code == 401 and ("token" in said or "WWW-Authenticate" in headers):
        return UsageError(f"Canvas does not accept the token: {said or 'it is wrong or expired'}")
    if code in (401, 403):
        return UsageError(
            f"Canvas refuses this ({said or code}): the token's owner must be allowed to manage "
            "the grades of this course, and the course must not be concluded"
        )
    if code == 404:
        return CanvasRefused(
            "Canvas has no such course or assignment, or the token's owner cannot see it"
        )
    return CanvasRefused(f"Canvas refuses the request ({code}): {said or 'it does not say why'}")


def _message(body: bytes) -> str:
    """The message in an error of Canvas, safe to print; empty if there is none."""
    with suppress(ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        tree = json.loads(body)
        errors = tree.get("errors") or tree.get("error") or tree.get("message")
        return one_line(str(errors[0]["message"] if isinstance(errors, list) else errors), 200)
    return ""


def _decoded(body: bytes, kind: type[Decoded]) -> Decoded:
    """An answer, whose ids may be numbers or texts."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise UsageError(
            f"Canvas' answer is not as documented: {one_line(str(e), 200)}; is this the address of "
            "Canvas?"
        ) from None
