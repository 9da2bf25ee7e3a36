# needs: nginx python3
# packages: nginx-light
here=$PWD; mkdir -p logs www tmp; head -c 900 /dev/zero > www/index.html
cat > app.py <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    n=0
    def do_GET(s):
        H.n+=1
        c=500 if s.path=='/api/orders/233/refund' else 302 if 'login' in s.path else 404 if '/missing' in s.path else 200
        b=b'x'*(H.n*37%900); s.send_response(c); s.send_header('Content-Length',str(len(b)))
        if c==302: s.send_header('Location','/')
        s.end_headers(); s.wfile.write(b)
    do_POST=do_GET
    def log_message(s,*a): pass
http.server.ThreadingHTTPServer(('127.0.0.1',18085),H).serve_forever()
PY
cat > drive.py <<'PY'
import http.client, random, sys
random.seed(9)
UA=['Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0','curl/8.5.0','Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Safari/605.1.15','okhttp/4.12.0']
def get(p,m='GET'):
    c=http.client.HTTPConnection('127.0.0.1',18084); c.request(m,p,headers={'Host':'shop.example.com','User-Agent':random.choice(UA),'X-Forwarded-For':f'203.0.113.{random.randint(1,250)}','Referer':random.choice(['-','https://shop.example.com/'])}); c.getresponse().read(); c.close()
def many(n):
    for i in range(n): get(random.choice(['/','/','/index.html',f'/api/orders/{random.randint(1,400)}',f'/api/products?page={random.randint(1,99)}',f'/api/error-codes/{random.randint(500,599)}','/login',f'/api/missing/{i}']))
which=sys.argv[1]
if which=='a': many(150); get('/api/orders/233/refund','POST'); many(40); get('/api/orders/233/refund','POST'); many(130)
elif which=='b':
    for i in (12,13,14): get(f'/api/orders/{i}')
else: many(80)
PY
cat > nginx.conf <<CONF
daemon on; pid $here/nginx.pid; error_log $here/logs/error.log; worker_processes 1;
events { worker_connections 64; }
http { client_body_temp_path $here/tmp/b; proxy_temp_path $here/tmp/p; fastcgi_temp_path $here/tmp/f; uwsgi_temp_path $here/tmp/u; scgi_temp_path $here/tmp/s;
  set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;
  log_format j escape=json '{"time":"\$time_iso8601","remote_addr":"\$remote_addr","method":"\$request_method","uri":"\$request_uri","status":\$status,"bytes":\$body_bytes_sent,"request_time":\$request_time,"upstream":"\$upstream_addr","upstream_status":"\$upstream_status"}'; FORMAT
  server { listen 127.0.0.1:18084; root $here/www; location /api/ { proxy_pass http://127.0.0.1:18085; } location = /login { proxy_pass http://127.0.0.1:18085; } }
}
CONF
sed -i "s#FORMAT#access_log $here/logs/access.log j;#" nginx.conf
python3 app.py >/dev/null 2>&1 & app=$!
trap 'kill $app 2>/dev/null; [ -f $here/nginx.pid ] && kill $(cat $here/nginx.pid) 2>/dev/null' EXIT
chmod 755 "$here"; nginx -p "$here" -c "$here/nginx.conf" >/dev/null 2>&1; sleep 0.7
python3 drive.py a; kill $app; wait $app 2>/dev/null; python3 drive.py b
python3 app.py >/dev/null 2>&1 & app=$!
sleep 0.7; python3 drive.py c
echo ==OUTPUT==
cat logs/access.log
