# needs: go
# packages: golang-go 1.19
set -u
export GOPROXY=off GOCACHE=/tmp/outputs/.gocache
mkdir -p cmd/agent cmd/ctl internal/probe internal/report internal/wire internal/errors
printf 'module example.com/fleet\n\ngo 1.19\n' > go.mod
python3 - <<'P'
import os
open("internal/wire/wire.go", "w").write('package wire\n\nimport (\n\t"encoding/json"\n\t"io"\n)\n\ntype Frame struct {\n\tKind  string `json:"kind"`\n\tError string `json:"error"`\n\tBody  []byte `json:"body`\n}\n\nfunc Write(w io.Writer, f Frame) error { return json.NewEncoder(w).Encode(f) }\n')
open("internal/errors/errors.go", "w").write('package errors\n\nimport "fmt"\n\ntype Failed struct{ Host string }\n\nfunc (f *Failed) Error() string { return fmt.Sprintf("probe of %d failed", f.Host) }\n')
open("internal/probe/probe.go", "w").write('package probe\n\nimport (\n\t"context"\n\t"net"\n\t"os"\n\t"time"\n\n\t"example.com/fleet/internal/wire"\n)\n\ntype Prober interface {\n\tProbe(ctx context.Context, host string) (time.Duration, error)\n}\n\ntype TCP struct{ Port int }\n\nfunc (t *TCP) Probe(host string) (time.Duration, error) {\n\tstart := time.Now()\n\tc, err := net.Dial("tcp", host)\n\tif err != nil {\n\t\treturn 0, err\n\t}\n\tdefer c.Close()\n\treturn time.Since(start), nil\n}\n\nvar _ Prober = (*TCP)(nil)\n\nfunc Send(f wire.Frame) error {\n\tcount := 3\n\treturn wire.Write(nil, f.Kind)\n}\n')
open("internal/report/report.go", "w").write('package report\n\nimport (\n\t"fmt"\n\t"sync"\n)\n\ntype Report struct {\n\tmu   sync.Mutex\n\tRows []string\n}\n\nfunc (r Report) Add(s string) {\n\tr.mu.Lock()\n\tdefer r.mu.Unlock()\n\tr.Rows = append(r.Rows, s)\n\tfmt.Printf("%s: %d rows\\n", s)\n}\n')
open("cmd/agent/main.go", "w").write('package main\n\nimport "example.com/fleet/internal/probe"\n\nfunc main() { _ = probe.TCP{} }\n')
open("cmd/ctl/main.go", "w").write('package main\n\nimport "example.com/fleet/internal/report"\n\nfunc main() { report.Report{}.Add("x") }\n')
for i in range(99):
    d = f"internal/plugin{i:02}"; os.makedirs(d)
    open(d + "/plugin.go", "w").write(f'package plugin{i:02}\n\nimport "errors"\n\nvar ErrFailed = errors.New("plugin {i} failed")\n\nfunc Run(n int) error {{\n\tif n > {i} {{\n\t\treturn ErrFailed\n\t}}\n\treturn nil\n}}\n')
    open(d + "/plugin_test.go", "w").write(f'package plugin{i:02}\n\nimport "testing"\n\nfunc TestErrFailed(t *testing.T) {{\n\tif Run(100) != ErrFailed {{\n\t\tt.Fatal("no error")\n\t}}\n}}\n')
P
go build std >/dev/null 2>&1
echo ==OUTPUT==
set -x
gofmt -l .
go list ./...
go build -v ./... ; status=$?
go vet ./internal/report ./internal/errors ./internal/wire || true
go test ./internal/... | grep -v 'no test files'
exit $status
