"""Read YAML as dicts, lists, strings and None, without constructing any object that it names."""

import yaml

MAX_DEPTH = 100  # of nested lists and mappings
MAX_NODES = 1_000_000  # texts, lists and mappings: 1,000 students with 20 submissions of 50 fields


def parse(text: str) -> object:
    """Build dicts, lists, strings and None from YAML.

    PyYAML's own loaders turn an unquoted 0123 into the number 83, take exponential time to merge
    mappings, and overflow the C stack on deep nesting. PyYAML's event stream has none of these
    problems. An alias counts as all that it stands for, so what reads the result ends soon.

    Raises:
        yaml.YAMLError: The text is not YAML, or uses features that an export does not need.
    """
    root: list[object] = []
    # Each open container, its children, its anchor, and how many nodes came before it.
    stack: list[tuple[object, list[object], str | None, int]] = [(None, root, None, 0)]
    anchors: dict[str | None, tuple[object, int]] = {}  # a value, and its number of nodes
    nodes = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            container, children, anchor, before = stack.pop()
            _close(container, children, event)
            anchors[anchor] = container, nodes - before
        elif isinstance(event, yaml.NodeEvent):
            value, more = _value(event, anchors)
            if (nodes := nodes + more) > MAX_NODES:
                raise _unfit(event, f"it has more than {MAX_NODES:,} values")
            stack[-1][1].append(value)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append((value, [], event.anchor, nodes - 1))
            elif not isinstance(event, yaml.AliasEvent):
                anchors[event.anchor] = value, 1
            if len(stack) > MAX_DEPTH:
                raise _unfit(event, f"it is nested more than {MAX_DEPTH} levels deep")
    return root[0] if len(root) == 1 else None


def _value(event: yaml.Event, anchors: dict[str | None, tuple[object, int]]) -> tuple[object, int]:
    """The value that starts at this event, and its number of nodes; an open container has one."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise _unfit(event, "it refers to an anchor that it does not define before")
        return anchors[event.anchor]
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise _unfit(event, f"the tag {tag} is not allowed")
    if isinstance(event, yaml.ScalarEvent):
        null = event.style is None and event.value in ("", "~", "null", "Null", "NULL")
        return (None if null else event.value), 1
    return ({} if isinstance(event, yaml.MappingStartEvent) else []), 1


def _close(container: object, children: list[object], event: yaml.Event) -> None:
    """Fill a list or dict with its collected values."""
    if isinstance(container, list):
        container += children
    elif isinstance(container, dict):
        keys = children[::2]
        if not all(isinstance(key, str) for key in keys):
            raise _unfit(event, "a key is not text")
        container.update(zip(keys, children[1::2], strict=True))


def _unfit(event: yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark = getattr(event, "start_mark", None)  # typed as either of two classes
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
