"""deepagents: its file tools read a mount of ctxfs, where stand-ins lead."""

from deepagents.backends import CompositeBackend, FilesystemBackend, StateBackend


def with_mount(mount="/ctx", default=None):
    """Returns a backend with the mount at its own path, and `default` for all other files."""
    files = FilesystemBackend(root_dir=mount, virtual_mode=True)
    return CompositeBackend(default=default or StateBackend(), routes={f"{mount}/": files})
