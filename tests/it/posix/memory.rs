//! Files mapped into memory.

use std::fs;

use crate::support::{Command, Mode, TestMount, eventually};

#[test]
fn a_shared_store_is_read_back_everywhere() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &b"line of text\n".repeat(1000));
        let script = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), 0) as map:
    map[5:7] = b'OF'
    map[9000:9004] = b'DEEP'
    map.flush()
    with open(sys.argv[1], 'rb') as reader:
        assert reader.read() == map[:]
";
        Command::python(script, &[&path]).stdout();
        let mut expected = b"line of text\n".repeat(1000);
        expected[5..7].copy_from_slice(b"OF");
        expected[9000..9004].copy_from_slice(b"DEEP");
        assert!(fs::read(&path).unwrap() == expected, "{mode:?}");
        assert!(fs::read(mount.store().plain("c7", "x.txt")).unwrap() == expected, "{mode:?}");
        let head = fs::read(path.with_file_name("x.txt.lines/1-1")).unwrap();
        assert_eq!(head, b"line OF text\n", "{mode:?}");
    }
}

/// The bytes are changed after `close`, through the mapping.
#[test]
fn a_store_after_close_is_not_lost() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"line of text\n");
        let view = path.with_file_name("x.txt.tail");
        let script = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
map = mmap.mmap(file, 0)
os.close(file)
open(sys.argv[2]).read()
map[0:4] = b'LINE'
map.flush()
map.close()
";
        Command::python(script, &[&path, &view]).stdout();
        assert_eq!(fs::read(&path).unwrap(), b"LINE of text\n", "{mode:?}");
        eventually(&format!("the view shows the late store, {mode:?}"), || {
            fs::read(&view).unwrap() == b"LINE of text\n"
        });
    }
}

#[test]
fn a_reader_maps_what_is_being_written() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let script = "
import mmap, os, sys
with open(sys.argv[1], 'wb', buffering=0) as writer:
    writer.write(b'a' * 10000)
    reader = os.open(sys.argv[1], os.O_RDONLY)
    map = mmap.mmap(reader, 0, prot=mmap.PROT_READ)
    assert map[:] == b'a' * 10000
    writer.seek(5000)
    writer.write(b'b' * 100)
    assert os.pread(reader, 100, 5000) == b'b' * 100
    assert map[5000:5100] == b'b' * 100
";
        let output = Command::python(script, &[&path]).run();
        assert!(output.code == 0, "{mode:?}: {output}");
    }
}
