"""The templates of the package: HTML pages, the model card, and the example of an ONNX folder."""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def template(name: str, folder: str = "report", **filters: Callable[..., str]) -> Template:
    """A template, with these filters and `plain`. A template of HTML escapes the values that it shows."""
    is_html = name.endswith(".html.j2")
    environment = Environment(
        loader=PackageLoader("isotune", folder),
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
    )
    environment.filters |= {"plain": plain, **filters}
    return environment.get_template(name)


def plain(value: object) -> str:
    """A JSON value as text: thousands separated, lists and objects joined by commas."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(plain(item) for item in value)
        case dict():
            return ", ".join(f"{key}: {plain(item)}" for key, item in value.items())
    return str(value)
