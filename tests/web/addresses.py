"""Addresses of pages, as page and server write them."""

import urllib.parse

# As `encodeURIComponent`, which the contract of the page follows, for each name of a path.
SAFE = "!'()*"


def named(name):
    """Returns a name as part of a path: text, or bytes that are no UTF-8."""
    return urllib.parse.quote(name, safe=SAFE)


def conversation(name, **query):
    return f"/c/{named(name)}{asked(query)}"


def output(conversation_name, path, route="o", **query):
    names = "/".join(named(name) for name in path.split("/"))
    return f"/c/{named(conversation_name)}/{route}/{names}{asked(query)}"


def asked(query):
    return f"?{urllib.parse.urlencode(query)}" if query else ""
