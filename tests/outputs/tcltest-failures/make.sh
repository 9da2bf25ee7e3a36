# needs: tclsh
# packages: tcl 8.6
set -u
mkdir -p tests
cat > ini.tcl <<'T'
namespace eval ini {
    proc parse {text} {
        set section ""
        set result [dict create]
        foreach line [split $text \n] {
            set line [string trim $line]
            if {$line eq "" || [string index $line 0] in {; #}} continue
            if {[regexp {^\[(.*)\]$} $line -> section]} continue
            if {![regexp {^([^=]+)=(.*)$} $line -> k v]} { error "bad line: $line" }
            dict set result $section [string trim $k] $v
        }
        return $result
    }
    proc get {d section key} { return [dict get $d $section $key] }
    proc escape {s} { return [string map {\n \\n} $s] }
}
T
python3 - <<'P'
for f in ["arrays", "comments", "dates", "encoding", "errors", "escape", "files", "get", "include", "lines", "merge", "numbers", "parse", "quotes", "sections", "tabs", "unicode", "write"]:
    s = "package require tcltest\nnamespace import ::tcltest::*\nsource [file join [file dirname [info script]] .. ini.tcl]\n"
    for i in range(1, 13):
        s += f"test {f}-1.{i} {{{f}: {'error message' if i % 4 == 0 else 'value'} {i}}} -body {{ ini::get [ini::parse \"\\[a\\]\\nk{i}=v{i}\"] a k{i} }} -result v{i}\n"
    if f == "errors": s += 'test errors-2.1 {bad line is an error} -body { ini::parse "no equals sign" } -returnCodes error -result {bad line: no equals sign}\ntest errors-2.2 {needs root} -constraints {root unixOnly knownBug} -body { error "failed" } -result {}\n'
    if f == "get": s += 'test get-2.1 {spaces around the value} -body { ini::get [ini::parse "\\[net\\]\\nhost = example.org"] net host } -result {example.org}\n'
    if f == "sections": s += 'test sections-2.1 {a key before any section} -body {\n    set d [ini::parse "a=1"]\n    ini::get $d global a\n} -result 1\n'
    for i in range(1, 9): s += f"test {f}-3.{i} {{{f}: failed lookup {i}}} -body {{ catch {{ini::get {{}} x y}} }} -result 1\n"
    open(f"tests/{f}.test", "w").write(s + "cleanupTests\n")
open("tests/all.tcl", "w").write("package require tcltest\ntcltest::configure -testdir [file dirname [file normalize [info script]]] -verbose {body pass skip error line}\nexit [tcltest::runAllTests]\n")
P
echo ==OUTPUT==
tclsh tests/all.tcl 2>&1
