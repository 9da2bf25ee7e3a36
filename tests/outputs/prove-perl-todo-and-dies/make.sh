# needs: perl prove
# packages: perl 5.36
set -u
mkdir -p lib/Mail t
cat > lib/Mail/Queue.pm <<'T'
package Mail::Queue;
use strict;
use warnings;
use Carp;

sub new { my ($class, %o) = @_; return bless { max => $o{max} // 100, jobs => [], errors => 0 }, $class }
sub push { my ($self, $job) = @_; croak "queue is full" if @{ $self->{jobs} } >= $self->{max}; push @{ $self->{jobs} }, $job; return scalar @{ $self->{jobs} } }
sub shift { my $self = shift; return shift @{ $self->{jobs} } }
sub fail { my ($self, $job, $why) = @_; $self->{errors}++; warn "queue: error: job $job failed: $why\n"; return $self->{errors} }
sub backoff { my ($self, $n) = @_; my @s = (1, 2, 4, 8, 16); return $s[$n > 4 ? 4 : $n] * ($n > 2 ? 2 : 1) }
sub header { my ($self, $h) = @_; return $h->{subject}->[0] . "\n" }
1;
T
python3 - <<'P'
names = ["00-load", "01-new", "02-push", "03-shift", "04-fail", "05-errors", "06-backoff", "07-limits", "08-utf8", "09-header", "10-retry", "11-todo", "12-skip", "13-locale", "14-order"]
for n in names:
    short = n[3:]
    s = "use strict; use warnings;\nuse Test::More;\nuse Mail::Queue;\n\nmy $q = Mail::Queue->new(max => 200);\n"
    for i in range(9): s += f"is($q->push({i}), {i + 1}, '{short}: push {i}{' after an error' if i % 4 == 2 else ''}');\n"
    if short == "errors":
        for i in range(3): s += f"is($q->fail({i}, 'connection refused'), {i + 1}, 'error {i} is counted');\n"
        s += "ok(!eval { Mail::Queue->new(max => 0)->push(1); 1 }, 'full queue dies'); diag \"died as it must: $@\";\n"
    if short == "backoff":
        s += "is($q->backoff($_), 2 ** $_, \"backoff of attempt $_\") for 0 .. 4;\n"
    if short == "todo":
        s += "TODO: {\n    local $TODO = 'priorities are not done';\n    is($q->shift, 8, 'highest first');\n    ok(0, 'failed job goes back');\n}\n"
    if short == "skip": s += "SKIP: { skip 'no SMTP server for error tests', 3; ok(0) for 1 .. 3 }\n"
    if short == "header": s += "is($q->header({ subject => ['Hi'] }), \"Hi\\n\", 'subject');\nis($q->header({ subject => 'Hi' }), \"Hi\\n\", 'plain subject');\n"
    for i in range(5): s += f"ok(1, '{short}: drained {i}, no error');\n"
    open(f"t/{n}.t", "w").write(s + "done_testing;\n")
P
echo ==OUTPUT==
prove -l -v --merge t 2>&1
