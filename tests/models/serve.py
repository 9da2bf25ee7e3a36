"""Serves a model over HTTP by llama.cpp.

    serve.py MODEL PORT CONTEXT NAME
"""

import os
import signal
import sys
import threading

import xllamacpp


def main(model, port, context, name):
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.n_ctx = int(context)
    settings.n_parallel = 1
    settings.model_alias = {name}
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = os.cpu_count() or 2
    settings.offline = True
    settings.ui = False
    # The template of chats that is stored with the model.
    settings.use_jinja = True
    # It serves until it is collected.
    server = xllamacpp.Server(settings)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    parent = os.getppid()
    # It ends with the tests, too, if these are killed.
    while not ended.wait(1) and os.getppid() == parent:
        pass
    del server
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
