//! A view answers for the rights of whoever asks, on each file that it reads, at the time of
//! asking.

use crate::daemon::users::shared;
use crate::support::{Command, TestMount};

/// One process that acts as several users. Each of them is held by modes, as the process has no
/// capabilities while it is not root.
const USERS: &str = r"
import errno, json, os, sys
M = sys.argv[1]
ANN, BOB, TEAM = 12345, 12346, 12399
def be(user, groups=()):
    os.seteuid(0); os.setgroups(list(groups)); os.setegid(user); os.seteuid(user)
def put(path, text, mode):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, text.encode()); os.close(fd)
def read(path, dir=None):
    fd = os.open(path, os.O_RDONLY, dir_fd=dir)
    with os.fdopen(fd) as file: return file.read()
def refused(call, *arguments, numbers=(errno.EACCES, errno.EPERM), **more):
    try: got = call(*arguments, **more)
    except OSError as error:
        assert error.errno in numbers, (arguments, error)
        return
    raise AssertionError(f'{arguments}: not refused: {got!r}')
def again(fd): return f'/proc/self/fd/{fd}'
def none_told(path, dir=None):
    try: assert os.stat(path, dir_fd=dir).st_size == 0, (path, os.stat(path, dir_fd=dir).st_size)
    except OSError as error: assert error.errno in GONE, (path, error)
# ESTALE: what was found before is not there any more.
GONE = (errno.EACCES, errno.ESTALE)
os.umask(0)
be(ANN)
os.mkdir(f'{M}/ann', 0o700)
TOOL = f'{M}/ann/artifacts/tool'
HISTORY = f'{M}/ann/history'
def open_dirs(mode=0o755):
    for dir in [f'{M}/ann', f'{M}/ann/artifacts', TOOL, HISTORY]: os.chmod(dir, mode)
open_dirs()
";

fn act(mount: &TestMount, script: &str) {
    let script = format!("{USERS}{script}");
    Command::python(&script, &[mount.path()]).text();
}

/// Bob finds views while he may read their file, and uses what he holds when he may not any more.
#[test]
fn a_view_that_was_found_before_is_closed_with_its_file() {
    let mount = shared(&["--allow-other"]);
    act(
        &mount,
        r#"
put(f'{TOOL}/x.json', '{"a": "early"}\n', 0o644)
put(f'{HISTORY}/messages.jsonl', '{"role": "user", "content": "early"}\n', 0o644)
names = [f'{TOOL}/x.json.{view}' for view in ['tail', 'summary', 'errors', 'pretty', 'meta.json',
    'lines/1', 'grep/late', 'jq/.a', 'pages/0001', 'pretty.tail', 'pretty.grep/late']]
names += [f'{HISTORY}/messages.jsonl.tail', f'{HISTORY}/messages.json']
be(BOB)
held = {name: os.open(name, os.O_PATH) for name in names}
seen = os.open(f'{TOOL}/x.json.head', os.O_PATH)
size = os.stat(seen).st_size
plain, view = (os.open(f'{TOOL}/x.json{view}', os.O_RDONLY) for view in ['', '.wrap'])
dirs = {name: os.open(name, os.O_PATH) for name in
    [f'{TOOL}/x.json.{view}' for view in ['grep', 'lines', 'jq', 'pages', 'pretty.grep']]}
be(ANN)
os.chmod(f'{TOOL}/x.json', 0o600)
os.chmod(f'{HISTORY}/messages.jsonl', 0o600)
for path in [f'{TOOL}/x.json', f'{HISTORY}/messages.jsonl']:
    with open(path, 'a') as file: file.write('{"role": "user", "content": "late"}\n')
be(BOB)
for name, fd in held.items():
    refused(read, again(fd), numbers=GONE)
    none_told(fd)
    refused(read, name)
    if os.path.dirname(name) in (TOOL, HISTORY): none_told(name)
refused(read, again(seen), numbers=GONE)
# For as long as the kernel believes the mode of the directory.
for dir in dirs.values():
    for name in ['late', '1', '.role', '0001', '1-5']:
        refused(read, name, dir=dir, numbers=(*GONE, errno.ENOENT))
        try: none_told(name, dir=dir)
        except FileNotFoundError: pass
# What is open stays open, as on any disk.
assert 'early' in os.pread(plain, 100, 0).decode() and 'early' in os.pread(view, 100, 0).decode()
assert os.fstat(view).st_size == 15
be(ANN)
for name in names:
    read(name)
    assert os.stat(name).st_size == len(read(name).encode()), name
be(BOB)
for name, fd in held.items():
    none_told(fd)
    if os.path.dirname(name) in (TOOL, HISTORY): none_told(name)
be(0)
assert 'late' in read(f'{TOOL}/x.json.tail') and 'late' in read(f'{HISTORY}/messages.json')
be(ANN)
os.chmod(f'{TOOL}/x.json', 0o640)
be(BOB, [ANN])
assert 'late' in read(f'{TOOL}/x.json.tail')
be(BOB)
refused(read, f'{TOOL}/x.json.tail')
be(ANN)
os.chmod(f'{TOOL}/x.json', 0o604)
be(BOB)
assert 'late' in read(f'{TOOL}/x.json.tail') and os.stat(f'{TOOL}/x.json.errors').st_size == 0
be(BOB, [ANN])
refused(read, f'{TOOL}/x.json.tail')
"#,
    );
}

/// Whoever may enter a directory but not read a file in it does not learn from the sizes of views
/// what the file holds, even while its owner uses them.
#[test]
fn sizes_of_views_tell_nothing_to_others() {
    let mount = shared(&["--allow-other"]);
    act(
        &mount,
        r"
put(f'{TOOL}/x.txt', 'ERROR: disk full\n', 0o600)
views = [f'{TOOL}/x.txt.{view}' for view in ['errors', 'tail', 'summary', 'terms', 'wrap']]
for turn in range(3):
    be(BOB)
    for view in views:
        fd = os.open(view, os.O_PATH)
        assert os.stat(fd).st_size == os.stat(view).st_size == 0, view
        refused(read, view)
        refused(read, again(fd))
        os.close(fd)
    be(ANN)
    for view in views: assert os.stat(view).st_size == len(read(view)) > 0, view
# Removing a view does nothing, so whoever may not read a file can remove the directory around it.
os.chmod(TOOL, 0o777)
be(BOB)
put(f'{TOOL}/y.txt', 'of Bob\n', 0o600)
be(ANN)
none_told(f'{TOOL}/y.txt.tail')
os.unlink(f'{TOOL}/y.txt.tail')
assert os.system(f'rm -r {TOOL}') == 0
",
    );
}

/// The owner of a directory searches and lists what she may read, and is told of the rest.
#[test]
fn a_search_has_what_its_reader_may_read() {
    let mount = shared(&["--allow-other"]);
    act(
        &mount,
        r"
put(f'{TOOL}/ann.txt', 'secret of Ann\n', 0o600)
open_dirs(0o777)
be(BOB)
os.mkdir(f'{M}/bob', 0o700)
put(f'{M}/bob/artifacts/tool/moved.txt', 'secret of Bob\n', 0o600)
os.chmod(f'{M}/bob', 0o777); os.chmod(f'{M}/bob/artifacts', 0o777)
os.chmod(f'{M}/bob/artifacts/tool', 0o777)
put(f'{TOOL}/open.txt', 'secret for all\n', 0o644)
os.mkdir(f'{TOOL}/closed', 0o700)
put(f'{TOOL}/closed/deep.txt', 'secret of Bob, deeper\n', 0o644)
be(ANN)
os.rename(f'{M}/bob/artifacts/tool/moved.txt', f'{TOOL}/moved.txt')
closed = '# 1 artifact and 1 directory are closed to you, and not searched\n'
def searches(query): return [read(f'{dir}/.grep/{query}') for dir in [TOOL, f'{M}/ann/artifacts', f'{M}/ann']]
for text in searches('secret'):
    assert text.startswith(closed) and 'of Ann' in text and 'for all' in text, text
    assert 'Bob' not in text and 'moved' not in text and 'deep' not in text, text
for query in ['-l secret', '-c secret', '-m0 secret', '-C1 Bob']:
    for text in searches(query): assert 'moved' not in text and 'deep' not in text, text
for text in searches('Bob'): assert text == closed, text
listed = json.loads(read(f'{M}/ann/manifest.json'))
assert [ref['id'] for ref in listed] == [f'ctx://ann/artifacts/tool/{name}.txt' for name in
    ['ann', 'open']] + ['ctx://ann'], listed
assert listed[2]['hint'] == '1 artifact and 1 directory are closed to you, and not listed', listed
be(0)
for text in searches('secret'): assert text.count('secret') == 4 and '#' not in text, text
assert len(json.loads(read(f'{M}/ann/manifest.json'))) == 4
# A mode that changes counts at once, one way and the other.
for mode, count in [(0o644, 2), (0o600, 1), (0o604, 2), (0o640, 1)]:
    be(BOB)
    os.chmod(f'{TOOL}/moved.txt', mode)
    be(ANN)
    assert read(f'{TOOL}/.grep/-c secret').count('moved') == count - 1, oct(mode)
    assert read(f'{M}/ann/manifest.json').count('moved.txt') == count - 1, oct(mode)
be(BOB)
os.chmod(f'{TOOL}/closed', 0o755)
be(ANN)
assert 'deeper' in read(f'{TOOL}/.grep/secret')
",
    );
}

/// Files and directories get the group of a set-gid directory, and directories its bit.
#[test]
fn a_set_gid_directory_gives_its_group() {
    let mount = shared(&["--allow-other"]);
    act(
        &mount,
        r"
be(ANN, [TEAM])
def made(path):
    stat = os.stat(path)
    return stat.st_uid, stat.st_gid, stat.st_mode & 0o7777
shared = f'{TOOL}/shared'
os.mkdir(shared)
os.chown(shared, -1, TEAM)
os.chmod(shared, 0o2777)
be(BOB, [TEAM])
os.mkdir(f'{shared}/d', 0o770)
os.mkdir(f'{shared}/d/e', 0o750)
for dir in [shared, f'{shared}/d', f'{shared}/d/e']: put(f'{dir}/x.txt', 'text', 0o640)
assert made(f'{shared}/d') == (BOB, TEAM, 0o2770), made(f'{shared}/d')
assert made(f'{shared}/d/e') == (BOB, TEAM, 0o2750)
for dir in [shared, f'{shared}/d', f'{shared}/d/e']: assert made(f'{dir}/x.txt') == (BOB, TEAM, 0o640), dir
# Elsewhere the group is that of the one who makes it, and set-id bits stay as they were asked for.
be(ANN)
os.mkdir(f'{TOOL}/own', 0o755)
assert made(f'{TOOL}/own') == (ANN, ANN, 0o755)
put(f'{TOOL}/own/program', 'text', 0o6755)
assert made(f'{TOOL}/own/program') == (ANN, ANN, 0o6755), made(f'{TOOL}/own/program')
",
    );
}

/// The groups of a process count, and what was computed for one process is for no other.
#[test]
fn a_search_is_for_the_one_who_asks() {
    let mount = shared(&["--allow-other"]);
    act(
        &mount,
        r"
open_dirs(0o777)
be(0)
put(f'{TOOL}/team.txt', 'secret of the team\n', 0o640)
os.chown(f'{TOOL}/team.txt', 0, TEAM)
be(ANN, [7, TEAM, 8])
search = f'{TOOL}/.grep/secret'
assert read(search) == 'team.txt:1:secret of the team\n'
fds = [os.open(path, os.O_PATH) for path in [search, f'{M}/ann/manifest.json']]
new = os.open(f'{TOOL}/.grep/team', os.O_PATH)
sizes = [os.stat(fd).st_size for fd in fds]
be(ANN)
assert read(search) == '# 1 artifact is closed to you, and not searched\n'
for fd in fds + [new]: refused(read, again(fd))
none_told(new)
be(ANN, [TEAM, 8, 7])
for fd, size in zip(fds, sizes): assert len(read(again(fd))) == size
be(BOB)
for fd in fds: refused(read, again(fd))
# A directory that is given away takes its searches with it.
be(ANN)
held = os.open(f'{TOOL}/.grep/held', os.O_PATH)
dir = os.open(f'{TOOL}/.grep', os.O_PATH)
be(0)
put(f'{TOOL}/later.txt', 'held by Bob\n', 0o644)
os.chown(TOOL, BOB, BOB)
be(ANN)
refused(read, again(held), numbers=GONE)
none_told(held)
refused(read, 'held', dir=dir)
try: none_told('held', dir=dir)
except PermissionError: pass
",
    );
}
