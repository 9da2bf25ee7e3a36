# needs: php phpunit
# packages: php-cli 8.2 phpunit 9.6
set -u
mkdir -p src tests
cat > src/Money.php <<'T'
<?php
declare(strict_types=1);
namespace Shop;
final class Money
{
    public function __construct(private int $cents, private string $currency = 'EUR') {}
    public function cents(): int { return $this->cents; }
    public function add(Money $m): Money
    {
        if ($m->currency !== $this->currency) { throw new \DomainException("cannot add {$m->currency} to {$this->currency}"); }
        return new Money($this->cents + $m->cents, $this->currency);
    }
    public function split(int $n): array { return array_fill(0, $n, new Money(intdiv($this->cents, $n), $this->currency)); }
    public static function parse(string $s): Money
    {
        [$units, $cents] = explode('.', $s);
        return new Money((int) $units * 100 + (int) $cents);
    }
}
T
python3 - <<'P'
s = "<?php\ndeclare(strict_types=1);\nrequire_once __DIR__ . '/../src/Money.php';\nuse PHPUnit\\Framework\\TestCase;\nuse Shop\\Money;\n\nfinal class MoneyTest extends TestCase\n{\n"
for n in ["Adds", "AddsNegative", "ErrorForOtherCurrency", "Zero", "FailedParseIsReported", "Large", "Small", "Equal", "Copy"]:
    b = "$this->expectException(\\DomainException::class); (new Money(1))->add(new Money(1, 'USD'));" if n.startswith("Error") else "fwrite(STDOUT, \"money: error: bad input, ignored\\n\"); $this->assertSame(3, (new Money(1))->add(new Money(2))->cents());" if n.startswith("Failed") else "$this->assertSame(3, (new Money(1))->add(new Money(2))->cents());"
    s += f"    public function test{n}(): void {{ {b} }}\n"
s += "    /** @dataProvider amounts */\n    public function testParse(string $s, int $cents): void { $this->assertSame($cents, Money::parse($s)->cents()); }\n    public static function amounts(): iterable\n    {\n" + "".join(f"        yield 'amount {i}' => ['{i}.{i:02}', {i * 100 + i}];\n" for i in range(99)) + "        yield 'one digit' => ['4.5', 450];\n        yield 'no cents' => ['12', 1200];\n    }\n    public function testSplitKeepsSum(): void\n    {\n        $parts = (new Money(100))->split(3);\n        $sum = array_sum(array_map(fn($m) => $m->cents(), $parts));\n        $this->assertSame(100, $sum, 'sum of the parts');\n    }\n    public function testRates(): void { $this->markTestSkipped('error tables of the bank missing'); }\n    public function testRounding(): void { $this->markTestIncomplete('fails for half cents'); }\n"
for i in range(80): s += f"    public function testZz{i:02}(): void {{ $this->assertSame({i}, (new Money({i}))->cents()); }}\n"
open("tests/MoneyTest.php", "w").write(s + "}\n")
P
echo ==OUTPUT==
phpunit --testdox --verbose --colors=never tests 2>&1
