# needs: ruby rspec
# packages: ruby 3.1 ruby-rspec 3.12
set -u
mkdir -p lib spec
cat > lib/cart.rb <<'T'
require 'logger'
class Cart
  class Error < StandardError; end
  LOG = Logger.new($stdout, formatter: ->(s, _, _, m) { "#{s} cart: #{m}\n" })
  attr_reader :lines
  def initialize(rates) = (@rates = rates; @lines = [])
  def add(sku, price, qty = 1)
    raise Error, "negative quantity for #{sku}" if qty < 0
    @lines << { sku: sku, price: price, qty: qty }
    self
  end
  def total(currency = 'EUR')
    sum = @lines.sum { |l| l[:price] * l[:qty] }
    convert(sum, currency)
  end
  def convert(sum, currency)
    return sum if currency == 'EUR'
    LOG.error("rate service failed: 503, using the cached rate of #{currency}")
    (sum * @rates[currency]).round(2)
  end
  def discount(percent) = total * (100 - percent) / 100
end
T
python3 - <<'P'
s = "require_relative '../lib/cart'\n\nRSpec.describe Cart do\n  let(:cart) { Cart.new('USD' => 1.1, 'JPY' => 160.0) }\n"
for g in ["adding", "removing", "merging", "error handling", "rounding", "taxes", "shipping"]:
    s += f"\n  describe '{g}' do\n"
    for i in range(8): s += f"    it '{['keeps the order', 'counts twice', 'ignores zero', 'reports an error for a negative quantity', 'is fast', 'survives a failed rate lookup', 'sums up', 'resets'][i]}' do\n" + ("      expect { cart.add('x', 1, -1) }.to raise_error(Cart::Error, /negative/)\n" if i == 3 else "      expect(cart.add('x', 10).total('USD')).to eq(11.0)\n" if i == 5 else f"      expect(cart.add('x', {i}).total).to eq({i})\n") + "    end\n"
    if g == "rounding": s += "    it 'rounds yen to whole numbers' do\n      cart.add('tea', 3.99, 3)\n      expect(cart.total('JPY')).to eq(1915)\n    end\n    it 'keeps cents of a discount' do\n      expect(cart.add('tea', 99).discount(50)).to eq(49.5)\n    end\n"
    if g == "taxes": s += "    it 'converts to a currency without a rate' do\n      expect(cart.add('tea', 3).total('CHF')).to be_nil.or be > 0\n    end\n    it 'knows the reduced rate', skip: 'error in the tables of 2024' do\n    end\n    xit 'knows the zero rate' do\n      fail 'not yet'\n    end\n"
    s += "  end\n"
open("spec/cart_spec.rb", "w").write(s + "end\n")
P
echo ==OUTPUT==
rspec --force-color --format documentation --backtrace spec 2>&1
