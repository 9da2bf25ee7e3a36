# needs: openssl python3
# packages: openssl
here=$PWD
{
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 3650 -subj "/O=Example/CN=Example Root CA"
mkdir -p demo; touch demo/index; echo 01 > demo/serial
cat > ca.cnf <<C
[ca]
default_ca=d
[d]
database=demo/index
serial=demo/serial
new_certs_dir=demo
default_md=sha256
policy=p
copy_extensions=copy
unique_subject=no
[p]
commonName=supplied
[i]
basicConstraints=CA:TRUE
C
openssl req -newkey rsa:2048 -nodes -keyout int.key -out int.csr -subj "/CN=Example Intermediate 3"
openssl ca -batch -config ca.cnf -in int.csr -out int.pem -cert ca.pem -keyfile ca.key -startdate 20200101000000Z -enddate 20250101000000Z -extensions i -notext
for h in shop api errors mail; do openssl req -newkey rsa:2048 -nodes -keyout $h.key -out $h.csr -subj "/CN=$h.example.com" -addext "subjectAltName=DNS:$h.example.com"
 c=ca; [ $h = api ] && c=int
 openssl ca -batch -config ca.cnf -in $h.csr -out $h.pem -cert $c.pem -keyfile $c.key -days 800 -notext; done
cat int.pem > api.chain
} >prep.log 2>&1
cat > check.sh <<'S'
rc=0
for h in shop api errors mail; do
  ch=""; [ $h = api ] && ch="-cert_chain api.chain"
  openssl s_server -quiet -accept 127.0.0.1:14433 -cert $h.pem -key $h.key $ch -www >/dev/null 2>&1 & s=$!
  sleep 0.6
  echo "=== $h.example.com"
  openssl s_client -connect 127.0.0.1:14433 -servername $h.example.com -verify_hostname $h.example.com -CAfile ca.pem -verify_return_error -status -showcerts </dev/null 2>&1 || { rc=1; echo "=== $h.example.com: check failed"; }
  kill $s; wait $s 2>/dev/null
done
exit $rc
S
echo ==OUTPUT==
bash check.sh 2>&1
