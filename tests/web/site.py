"""The stores and servers of a run: each is made when the first check asks for it."""

import contextlib
import shutil
import subprocess
import threading

from hosts.report import Failed

from web import fixtures, hostile
from web.server import Server
from web.store import Store


class Site:
    """The servers by name, and what belongs to each."""

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch
        self.stack, self.lock, self.made = contextlib.ExitStack(), threading.Lock(), {}
        self.locks = {name: threading.Lock() for name in PLACES}

    def place(self, name):
        """Returns the place `name`: its store, its server, what the model was given. Makes it if it is not there."""
        with self.locks[name]:
            if name not in self.made:
                self.made[name] = made(self, name)
            if isinstance(self.made[name], Exception):
                raise Failed(f"no place `{name}`: {self.made[name]}")
            return self.made[name]

    def later(self, end, *arguments):
        with self.lock:
            self.stack.callback(end, *arguments)

    def end(self):
        """Ends the servers; each must end well."""
        self.stack.close()


def made(site, name):
    """Returns a place, or why there is none: then no check tries it again."""
    try:
        return PLACES[name](site, name)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        return error


class Place:
    """A store, its server, and whatever `given` and `mount` a check needs."""

    def __init__(self, site, name, fill, *options):
        self.store = Store(site.program, site.scratch / name)
        self.given, self.mount = fill(self.store), None
        self.server = Server(self.store, *options)
        site.later(self.server.stop)


def still(site, name):
    return Place(site, name, fixtures.still)


def many(site, name):
    place = Place(site, name, fixtures.many)
    place.server.wait_for("/?sort=name&page=100&order=asc", f"agent-{fixtures.MANY - 1:05}")
    # Not left to the end of all checks: these are 60,000 files.
    site.later(shutil.rmtree, place.store.path)
    return place


def live(site, name):
    """A store with a mount, in which checks write."""
    place = Place(site, name, lambda store: store.say("quiet", {"role": "user", "content": "Wait."}))
    place.mount = site.stack.enter_context(place.store.mounted())
    return place


def hostile_place(site, name):
    place = Place(site, name, hostile.fill)
    place.before = hostile.digest(place.store)
    return place


def confined(site, name):
    """The hostile store, shown by a server of one conversation."""
    return Place(site, name, hostile.fill, "--only", hostile.OWN)


PLACES = {"still": still, "pictured": still, "many": many, "live": live, "hostile": hostile_place, "only": confined}
