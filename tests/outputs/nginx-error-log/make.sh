# needs: nginx curl python3
# packages: nginx-light curl
here=$PWD; mkdir -p logs www/static tmp up
cat > up/app.py <<'PY'
import http.server, os, sys, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(s):
        if s.path.startswith('/api/slow'): time.sleep(1.4)
        if s.path.startswith('/api/bighead'):
            s.send_response(200); s.send_header('X-Trace','t'*6000); s.end_headers(); return
        b=b'{"ok":true}'; s.send_response(200); s.send_header('Content-Length',str(len(b))); s.end_headers(); s.wfile.write(b)
    def log_message(s,*a): pass
http.server.ThreadingHTTPServer(('127.0.0.1',18081),H).serve_forever()
PY
cat > nginx.conf <<CONF
daemon on; pid $here/nginx.pid; error_log $here/logs/error.log info; user www-data; worker_processes 1;
events { worker_connections 64; }
http {
  client_body_temp_path $here/tmp/body; proxy_temp_path $here/tmp/proxy; fastcgi_temp_path $here/tmp/f; uwsgi_temp_path $here/tmp/u; scgi_temp_path $here/tmp/s;
  access_log $here/logs/access.log; client_max_body_size 1k; proxy_read_timeout 1s; proxy_buffer_size 4k; proxy_buffers 4 4k; proxy_busy_buffers_size 8k;
  limit_req_zone \$binary_remote_addr zone=login:1m rate=2r/s;
  upstream app { server 127.0.0.1:18081 max_fails=0; keepalive 4; }
  server { listen 127.0.0.1:18080; server_name shop.example.com; root $here/www;
    location / { }
    location /static/ { }
    location = /login { limit_req zone=login burst=3 nodelay; return 204; }
    location /api/ { proxy_pass http://app; proxy_set_header Connection ""; }
  }
}
CONF
: > www/favicon.png; echo hi > www/index.html; echo key > www/static/private.css; chmod 600 www/static/private.css; chmod 755 "$here" www www/static; chown -R www-data tmp
python3 up/app.py >/dev/null 2>&1 & app=$!
trap 'kill $app 2>/dev/null; [ -f $here/nginx.pid ] && kill $(cat $here/nginx.pid) 2>/dev/null' EXIT
nginx -p "$here" -c "$here/nginx.conf" >/dev/null 2>&1; sleep 0.7
U=http://127.0.0.1:18080; g() { curl -s -o /dev/null -m 5 -H 'Host: shop.example.com' "$@"; }
for i in $(seq 1 17); do g $U/wp-login-$i.php; g $U/old/error-page-$i.html; done
for i in $(seq 1 14); do g $U/login; done
g $U/api/slow
for i in $(seq 27 40); do g $U/assets/app.$i.js; done
g $U/static/private.css
dd if=/dev/zero bs=1k count=6 2>/dev/null | g --data-binary @- $U/api/upload
g $U/api/bighead
g -m 0.3 $U/api/slow
kill $app; wait $app 2>/dev/null
for i in $(seq 1 30); do g $U/api/orders/$i; done
python3 up/app.py >/dev/null 2>&1 & app=$!
sleep 0.7
for i in $(seq 41 58); do g $U/api/orders/$i; g $U/img/p$i.webp; done
nginx -p "$here" -c "$here/nginx.conf" -s reload; sleep 0.4
for i in $(seq 76 90); do g $U/img/p$i.webp; done
nginx -p "$here" -c "$here/nginx.conf" -s quit; sleep 0.5
echo ==OUTPUT==
cat logs/error.log
