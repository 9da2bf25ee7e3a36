#!/bin/bash
# needs: python3
# packages: pip:pytest==9.2.0 pip:pytest-xdist==3.8.0
set -u
export LC_ALL=C.UTF-8 TZ=UTC
VENV=${VENV:-/tmp/outputs-venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" >/dev/null 2>&1
for p in pytest==9.2.0 pytest-xdist==3.8.0; do [ -d "$(echo "$VENV"/lib/python3*/site-packages/$(echo "${p%%==*}" | tr - _)-"${p##*==}".dist-info)" ] || "$VENV/bin/pip" install -q "$p" >/dev/null 2>&1; done
PATH=$VENV/bin:$PATH
PYHOME=$(python -c 'import sys; print(sys.base_prefix)')
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
clean() { sed -u -e "s#\(\.\./\)\+${VENV#/tmp/}#/home/dev/venv#g" -e "s#$VENV#/home/dev/venv#g" -e "s#$PYHOME#/usr/local#g" -e "s#$HOME/#/home/dev/#g"; }
mkdir -p tests thumbs
touch thumbs/__init__.py
cat > thumbs/codec.py <<'X'
import ctypes
import warnings


class DecodeError(ValueError):
    pass


def decode(data: bytes):
    if data[:2] != b"TH":
        raise DecodeError(f"bad magic {data[:2]!r}")
    if data[2] == 0xFF:
        # length from the header is trusted
        return ctypes.string_at(0x5 << 40, data[3])
    warnings.warn("decode() is deprecated, use decode_into()", DeprecationWarning, stacklevel=2)
    return data[3 : 3 + data[2]]
X
cat > tests/conftest.py <<'X'
import pytest

@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    d = tmp_path_factory.mktemp("cache")
    (d / "index").write_text("0")
    return d

@pytest.fixture
def gpu():
    try:
        open("/dev/thumbs-gpu0")
    except OSError as e:
        raise RuntimeError("no device for the hardware decoder") from e
X
cat > tests/test_codec.py <<'X'
import pytest
from thumbs.codec import DecodeError, decode

@pytest.mark.parametrize("n", range(120))
def test_decode_length(n):
    assert decode(b"TH" + bytes([n]) + b"x" * n) == b"x" * n

@pytest.mark.parametrize("magic", ["PN", "GI", "JP", "", "ht"])
def test_bad_magic_raises_decode_error(magic):
    with pytest.raises(DecodeError):
        decode(magic.encode().ljust(2) + b"\x01x")

def test_decode_trusted_length():
    assert decode(b"TH\xff\x10" + b"y" * 16) == b"y" * 16
X
cat > tests/test_gpu.py <<'X'
import pytest

@pytest.mark.parametrize("size", [64, 128, 256])
def test_gpu_scale(gpu, size):
    assert gpu
X
cat > tests/test_cache.py <<'X'
import pytest

@pytest.mark.parametrize("key", range(90))
def test_put_get(cache_dir, key):
    (cache_dir / str(key)).write_text(str(key))
    assert (cache_dir / str(key)).read_text() == str(key)

@pytest.mark.parametrize("key", range(40))
def test_missing_key_error(cache_dir, key):
    with pytest.raises(FileNotFoundError):
        (cache_dir / f"missing-{key}").read_text()

def test_index_counts(cache_dir):
    n = int((cache_dir / "index").read_text())
    assert n == len(list(cache_dir.iterdir())) - 1, f"index says {n}"
X
run() { pytest -v -n 2 --dist load --tb=native -p xdist -p no:cacheprovider -o pythonpath=. tests; }
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
