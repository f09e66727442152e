"""Read YAML as dicts, lists, strings and None, without constructing any object that it names."""

import yaml

MAX_DEPTH = 100  # of nested lists and mappings
MAX_NODES = 1_000_000  # texts, lists and mappings: 1,000 students with 20 submissions of 50 fields


def parse(text: str) -> object:
    """Build dicts, lists, strings and None from YAML.

    PyYAML's own loaders turn an unquoted 0123 into the number 83, take exponential time to merge
    mappings, and overflow the C stack on deep nesting. PyYAML's event stream has none of these
    problems. An alias becomes a second reference, so it takes no memory.

    Raises:
        yaml.YAMLError: The text is not YAML, or uses features that an export does not need.
    """
    root: list[object] = []
    stack: list[tuple[object, list[object]]] = [(None, root)]
    anchors: dict[str, object] = {}
    nodes = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            _close(*stack.pop(), event)
        elif isinstance(event, yaml.NodeEvent):
            if (nodes := nodes + 1) > MAX_NODES:
                raise _unfit(event, f"it has more than {MAX_NODES:,} values")
            value = _value(event, anchors)
            stack[-1][1].append(value)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append((value, []))
            if len(stack) > MAX_DEPTH:
                raise _unfit(event, f"it is nested more than {MAX_DEPTH} levels deep")
    return root[0] if len(root) == 1 else None


def _value(event: yaml.Event, anchors: dict[str, object]) -> object:
    """The value that starts at this event: text, None, an empty container or an aliased value."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise _unfit(event, "it refers to an anchor that it does not define")
        return anchors[event.anchor]
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise _unfit(event, f"the tag {tag} is not allowed")
    value: object
    if isinstance(event, yaml.ScalarEvent):
        null = event.style is None and event.value in ("", "~", "null", "Null", "NULL")
        value = None if null else event.value
    else:
        value = {} if isinstance(event, yaml.MappingStartEvent) else []
    if anchor := getattr(event, "anchor", None):
        anchors[anchor] = value
    return value


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
