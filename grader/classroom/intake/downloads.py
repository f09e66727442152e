"""The downloads of platforms that have names of their own: each is a module of `more/`."""

from grader.base import removable
from grader.classroom.intake.folder_items import Download

DOWNLOADS: dict[str, Download] = removable.objects("grader.classroom.intake.more", "DOWNLOAD")
