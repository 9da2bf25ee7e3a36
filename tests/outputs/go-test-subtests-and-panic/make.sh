# needs: go
# packages: golang-go 1.19
set -u
export GOFLAGS=-mod=mod GOPROXY=off GOCACHE=/tmp/outputs/.gocache
mkdir -p cart coupon stock price
printf 'module example.com/shop\n\ngo 1.19\n' > go.mod
python3 - <<'P'
open("price/price.go", "w").write('package price\n\nimport "errors"\n\nvar ErrNegative = errors.New("negative price")\n\nfunc Gross(net, percent int) (int, error) {\n\tif net < 0 {\n\t\treturn 0, ErrNegative\n\t}\n\treturn net + net*percent/100, nil\n}\n')
open("coupon/coupon.go", "w").write('package coupon\n\ntype Coupon struct {\n\tCode    string\n\tPercent int\n}\n\nfunc (c *Coupon) Apply(sum int) int { return sum - sum*c.Percent/100 }\n\nfunc Find(all map[string]*Coupon, code string) *Coupon { return all[code] }\n')
open("cart/cart.go", "w").write('package cart\n\nimport "example.com/shop/coupon"\n\ntype Cart struct {\n\tLines   []int\n\tCoupons map[string]*coupon.Coupon\n}\n\nfunc (c *Cart) Sum(code string) int {\n\tn := 0\n\tfor _, l := range c.Lines {\n\t\tn += l\n\t}\n\tif code != "" {\n\t\tn = coupon.Find(c.Coupons, code).Apply(n)\n\t}\n\treturn n\n}\n')
open("stock/stock.go", "w").write('package stock\n\nimport "fmt"\n\nfunc Reserve(have, want int) error {\n\tif want > have {\n\t\treturn fmt.Errorf("stock: want %d, have %d", want, have)\n\t}\n\treturn nil\n}\n')
def table(pkg, fn, cases, body, imports='"testing"'):
    s = f'package {pkg}\n\nimport {imports if imports.startswith("(") else imports}\n\n'
    return s + f"func {fn}(t *testing.T) {{\n" + body + "}\n"
s = 'package price\n\nimport "testing"\n\nfunc TestGross(t *testing.T) {\n\tfor _, c := range []struct {\n\t\tname               string\n\t\tnet, percent, want int\n\t}{\n'
cs = [(f"{a}_{b}", n, p, n + n * p // 100) for a, n in [("zero", 0), ("one_cent", 1), ("book", 1999), ("laptop", 129900), ("error_article", 500)] for b, p in [("free", 0), ("reduced", 7), ("full", 19), ("failed_lookup", 20)]]
cs = [(n, a, b, (2379 if n == "book_full" else w)) for n, a, b, w in cs]
for n, a, b, w in cs: s += f'\t\t{{"{n}", {a}, {b}, {w}}},\n'
s += '\t} {\n\t\tt.Run(c.name, func(t *testing.T) {\n\t\t\tgot, err := Gross(c.net, c.percent)\n\t\t\tt.Logf("error is %v", err)\n\t\t\tif got != c.want {\n\t\t\t\tt.Errorf("Gross(%d, %d) = %d, want %d", c.net, c.percent, got, c.want)\n\t\t\t}\n\t\t})\n\t}\n}\n\nfunc TestGrossError(t *testing.T) {\n\tif _, err := Gross(-1, 19); err != ErrNegative {\n\t\tt.Fatalf("got %v", err)\n\t}\n}\n'
open("price/price_test.go", "w").write(s)
s = 'package cart\n\nimport (\n\t"log"\n\t"testing"\n\n\t"example.com/shop/coupon"\n)\n\n'
for n in ["Empty", "One", "Two", "Many", "Large", "ErrorLine", "Reset", "Copy", "Merge", "Sorted"]:
    s += f'func TestSum{n}(t *testing.T) {{\n\tc := Cart{{Lines: []int{{1, 2, 3}}}}\n\tlog.Printf("cart: coupon service failed: connection refused (retry 1 of 3)")\n\tif got := c.Sum(""); got != 6 {{\n\t\tt.Errorf("Sum() = %d, want 6", got)\n\t}}\n}}\n\n'
s += 'func TestSumCoupon(t *testing.T) {\n\tc := Cart{Lines: []int{100}, Coupons: map[string]*coupon.Coupon{"SPRING": {"SPRING", 10}}}\n\tif got := c.Sum("SPRING"); got != 90 {\n\t\tt.Errorf("Sum() = %d, want 90", got)\n\t}\n\tif got := c.Sum("EXPIRED"); got != 100 {\n\t\tt.Errorf("Sum() = %d, want 100", got)\n\t}\n}\n\nfunc TestSumNever(t *testing.T) {}\n'
open("cart/cart_test.go", "w").write(s)
s = 'package stock\n\nimport "testing"\n\n'
for n in ["None", "One", "All", "TooMany", "Negative", "ErrorText", "Twice", "Parallel", "AfterReturn", "FailedDelivery"]:
    s += f'func TestReserve{n}(t *testing.T) {{\n\tfor _, w := range []string{{"north", "south", "transit"}} {{\n\t\tt.Run(w, func(t *testing.T) {{\n\t\t\tif err := Reserve(3, 4); err != nil {{\n\t\t\t\tt.Logf("as expected: error: %v", err)\n\t\t\t}}\n\t\t}})\n\t}}\n}}\n\n'
open("stock/stock_test.go", "w").write(s)
P
echo ==OUTPUT==
go test -v ./... 2>&1 | sed -E 's#/usr/(lib|share)/go[^ ]*/src#/usr/lib/go-1.19/src#'
exit ${PIPESTATUS[0]}
