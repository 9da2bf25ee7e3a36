# needs: curl python3
# packages: curl
cat > s.py <<'PY'
import http.server, json, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'; n={}
    def do_GET(s):
        k=s.path; H.n[k]=H.n.get(k,0)+1
        bad = (k.endswith('3') and H.n[k]<3) or (k.endswith('5') and H.n[k]<2)
        b=json.dumps({'error':'upstream unavailable','status':'failed'} if bad else {'orders':[{'id':i,'state':'failed' if i%4==0 else 'paid','last_error':'card declined' if i%4==0 else None} for i in range(6)],'errors':[]},indent=1).encode()
        s.send_response(503 if bad else 200)
        for h,v in (('Content-Type','application/json'),('Content-Length',str(len(b))),('Retry-After','0') if bad else ('X-Error-Budget','0.97'),('Connection','keep-alive')): s.send_header(h,v)
        s.end_headers(); s.wfile.write(b)
    def log_message(s,*a): pass
    def version_string(s): return 'shop/2.1'
http.server.ThreadingHTTPServer(('127.0.0.1',18090),H).serve_forever()
PY
python3 s.py >/dev/null 2>&1 & p=$!
trap 'kill $p' EXIT
sleep 0.8
echo ==OUTPUT==
for i in 1 2 3 4 5 6 7; do curl -sSv --noproxy '*' --retry 4 --retry-delay 1 -H 'Accept: application/json' http://127.0.0.1:18090/orders/page/$i 2>&1 || exit $?; echo; done
