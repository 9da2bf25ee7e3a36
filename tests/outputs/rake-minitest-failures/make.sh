# needs: ruby rake
# packages: ruby 3.1 rake 13.0 ruby-minitest 5.17
set -u
mkdir -p lib test
cat > Rakefile <<'T'
require 'rake/testtask'
task :prepare do
  puts '== preparing database'
  12.times { |i| puts "   migrated #{format('%03d', i)}_create_#{%w[users errors jobs][i % 3]} (0.00#{i}s)" }
end
Rake::TestTask.new(:test => :prepare) { |t| t.libs << 'lib'; t.pattern = 'test/*_test.rb'; t.options = '-v --seed=7'; t.verbose = true }
task :default => [:test]
T
cat > lib/parser.rb <<'T'
class Parser
  class ParseError < StandardError; end
  def parse(s)
    raise ParseError, 'empty' if s.empty?
    s.split(',').map { |f| field(f) }
  end
  def field(f)
    k, v = f.split('=')
    [k.strip.to_sym, v.strip]
  end
  def date(s) = s.split('-').map(&:to_i).then { |y, m, d| format('%04d-%02d-%02d', y, d, m) }
end
T
python3 - <<'P'
for c in ["Comment", "Date", "Encoding", "Error", "Escape", "Field", "Header", "Line", "List", "Number", "Quote", "Reader", "Section", "Space", "Token", "Writer"]:
    s = f"require 'minitest/autorun'\nrequire 'parser'\n\nclass {c}Test < Minitest::Test\n"
    for i in range(10): s += f"  def test_{['simple', 'two', 'parse_error', 'long', 'failed_input', 'tabs', 'upper', 'lower', 'again', 'none'][i]}\n" + ("    assert_raises(Parser::ParseError) { Parser.new.parse('') }\n" if i == 2 else f"    warn 'parser: error: field 3 skipped' if {i} == 4\n    assert_equal [[:a, '{i}']], Parser.new.parse('a={i}')\n") + "  end\n"
    if c == "Date": s += "  def test_day_and_month\n    assert_equal '2024-02-29', Parser.new.date('2024-2-29')\n  end\n"
    if c == "Field": s += "  def test_flag_without_value\n    assert_equal [[:debug, nil]], Parser.new.parse('debug')\n  end\n  def test_unknown_encoding\n    skip 'error tables missing'\n  end\n"
    open(f"test/{c.lower()}_test.rb", "w").write(s + "end\n")
P
echo ==OUTPUT==
rake 2>&1
