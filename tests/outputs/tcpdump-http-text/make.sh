# needs: tcpdump curl python3
# packages: tcpdump curl
mkdir www; echo '{"error": null}' > www/error.json; echo hello > www/index.html
python3 -c "
import http.server
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(s,*a): pass
    def version_string(s): return 'shop/2.1'
http.server.ThreadingHTTPServer(('127.0.0.1',18095),lambda *a: H(*a,directory='www')).serve_forever()" >/dev/null 2>&1 & p=$!
tcpdump -i lo -U -w d.pcap 'tcp port 18095 or tcp port 18096' >/dev/null 2>&1 & t=$!
trap 'kill $p $t 2>/dev/null' EXIT
sleep 1.5
for i in 1 2 3 4; do for f in index.html error.json missing; do curl -s --noproxy '*' -o /dev/null http://127.0.0.1:18095/$f; done; done
curl -s --noproxy '*' -o /dev/null http://127.0.0.1:18096/refused
sleep 1; kill $t; wait $t 2>/dev/null
echo ==OUTPUT==
tcpdump -nn -r d.pcap -A -s 300 2>&1 | cat -v | head -c 24000
exit 0
