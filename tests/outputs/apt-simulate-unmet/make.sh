# needs: apt-get apt-ftparchive (or a hand-made Packages file), dpkg
# packages: apt
here=$PWD; mkdir -p repo state/lists/partial cache/archives/partial etc/preferences.d etc/apt.conf.d etc/trusted.gpg.d var/dpkg
python3 - <<'PY'
import random
random.seed(2)
names=[f'lib{a}{b}' for a in ('shop','mail','tax','log','err','pay') for b in ('-core1','-util2','-io3','-net4','-error-perl')]
def e(n,v,dep='',extra=''): return f'Package: {n}\nVersion: {v}\nArchitecture: amd64\nMaintainer: Shop <ops@example.com>\nInstalled-Size: 120\nFilename: pool/{n}_{v}_amd64.deb\nSize: 40000\nSHA256: {random.getrandbits(256):064x}\nDescription: {n} of the shop\n'+(f'Depends: {dep}\n' if dep else '')+extra+'\n'
p=''; s=''
for i,n in enumerate(names):
    p+=e(n,'2.4-1',', '.join(names[max(0,i-2):i]))
    if i%2: s+=e(n,'2.3-1').replace('Architecture','Status: install ok installed\nArchitecture',1)
p+=e('shop-server','5.0-1',', '.join(names)+', shop-db (>= 15)')
p+=e('shop-db','14.9-2','libshop-core1','Breaks: shop-server (<< 4)\n')
p+=e('shop-web','5.0-1','shop-server (= 5.0-1), libssl-shop3 (>= 3.2)')
p+=e('libssl-shop3','3.0.15-1')
p+=e('libpay-io3','1.9-1')
s+=e('libpay-io3','1.9-1').replace('Architecture','Status: hold ok installed\nArchitecture',1) if False else ''
s+=e('shop-base','4.0').replace('Architecture','Status: hold ok installed\nArchitecture',1)
p+=e('shop-base','5.0','libshop-core1')
open('repo/Packages','w').write(p); open('var/dpkg/status','w').write(s)
PY
echo "deb [trusted=yes] file:$here/repo ./" > etc/sources.list
A() { apt-get -o Dir::State=$here/state -o Dir::State::status=$here/var/dpkg/status -o Dir::Cache=$here/cache -o Dir::Etc=$here/etc -o Dir::Etc::sourcelist=$here/etc/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::main=/dev/null -o Dir::Etc::parts=/dev/null -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Sandbox::User=root "$@"; }
A update >prep.log 2>&1
echo ==OUTPUT==
{
rc=0
for p in libshop-net4 liberr-error-perl libpay-net4; do echo "### apt-get install -s $p"; A install -s -y $p || rc=$?; done
echo "### apt-get install -s shop-web"; A install -s -y shop-web || rc=$?
echo "### apt-get install -s -V liblog-net4"; A install -s -V -y liblog-net4 || rc=$?
echo "### apt-get dist-upgrade -s"; A dist-upgrade -s -y || rc=$?
} 2>&1
exit $rc
