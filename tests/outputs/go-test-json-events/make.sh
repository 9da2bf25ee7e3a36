# needs: go
# packages: golang-go 1.19
set -u
export GOPROXY=off GOCACHE=/tmp/outputs/.gocache
mkdir -p zone slot
printf 'module example.com/booking\n\ngo 1.19\n' > go.mod
python3 - <<'P'
open("zone/zone.go", "w").write('package zone\n\nimport "errors"\n\nvar ErrUnknown = errors.New("unknown zone")\n\nfunc Offset(z string, month int) (int, error) {\n\tswitch z {\n\tcase "UTC":\n\t\treturn 0, nil\n\tcase "CET":\n\t\tif month > 3 && month <= 10 {\n\t\t\treturn 120, nil\n\t\t}\n\t\treturn 60, nil\n\t}\n\treturn 0, ErrUnknown\n}\n')
s = 'package zone\n\nimport "testing"\n\nfunc TestOffset(t *testing.T) {\n\tfor _, c := range []struct {\n\t\tname, zone  string\n\t\tmonth, want int\n\t}{\n'
for m in range(1, 13): s += f'\t\t{{"utc_{m}", "UTC", {m}, 0}},\n\t\t{{"cet_{m}", "CET", {m}, {120 if 3 <= m <= 10 else 60}}},\n'
s += '\t} {\n\t\tt.Run(c.name, func(t *testing.T) {\n\t\t\tgot, err := Offset(c.zone, c.month)\n\t\t\tt.Logf("lookup error: %v", err)\n\t\t\tif got != c.want {\n\t\t\t\tt.Fatalf("Offset(%q, %d) = %d, want %d", c.zone, c.month, got, c.want)\n\t\t\t}\n\t\t})\n\t}\n}\n\nfunc TestErrorUnknown(t *testing.T) {\n\tif _, err := Offset("XX", 1); err != ErrUnknown {\n\t\tt.Fatal(err)\n\t}\n}\n'
open("zone/zone_test.go", "w").write(s)
open("slot/slot.go", "w").write("package slot\n\nfunc Free(n int) bool { return n%2 == 0 }\n")
s = 'package slot\n\nimport "testing"\n\n'
for n in ["Empty", "Full", "ErrorState", "FailedBooking", "Overlap", "Cancel"]: s += f'func TestFree{n}(t *testing.T) {{\n\tt.Log("booking failed as expected: error 409")\n\tif !Free(2) {{\n\t\tt.Error("not free")\n\t}}\n}}\n\n'
open("slot/slot_test.go", "w").write(s)
P
go vet ./... >/dev/null 2>&1
echo ==OUTPUT==
go test -json ./zone ./slot 2>&1
