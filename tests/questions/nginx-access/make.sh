# needs: apt-get dpkg python3 openssl
# packages: nginx (unpacked here, not installed)
# A real nginx on a loopback port, real requests from a small client; the output is nginx's access log (combined format).
apt-get download -q nginx 2>/dev/null >/dev/null; dpkg -x nginx_*.deb pkg
mkdir -p www tmp; D=$PWD; chmod 755 $D
python3 - <<'PY'
import os
for p in '''index.html opening-hours.html exhibitions/index.html exhibitions/whale-bones.html exhibitions/roman-glass.html exhibitions/clockmakers.html
exhibitions/archive/2019-moon-rocks.html tickets/index.html tickets/family-pass.html tickets/school-groups.html kids/treasure-hunt.html kids/birthday-parties.html
collections/search.html collections/beetles/0412.html collections/beetles/0413.html collections/pottery/0099.html collections/maps/1648-coastline.html
press/annual-report-2023.pdf press/floorplan.pdf shop/index.html shop/ammonite-pendant.html shop/tote-bag.html about/jobs.html about/jobs/night-guard.html about/donate.html
accessibility/wheelchair-routes.html cafe/menu.html blog/index.html blog/restoring-the-mammoth.html blog/moth-infestation.html blog/how-we-moved-a-whale.html
static/app.css static/app.js static/logo.svg static/fonts/Lora.woff2 img/hero.jpg img/mammoth.jpg img/cafe.jpg robots.txt sitemap.xml feed.xml favicon.ico
staff/rota.html staff/loans/register.html private/donors.xlsx audio-guide/track-01.mp3 audio-guide/track-14-volcano.mp3'''.split():
    os.makedirs(os.path.dirname('www/'+p) or 'www',exist_ok=True); open('www/'+p,'w').write('x'*(len(p)*137+(900000 if p.endswith('mp3') else 400)))
os.chmod('www/private/donors.xlsx',0)
PY
printf 'curator.ngozi:%s\nbackup-bot:%s\n' "$(openssl passwd -apr1 a)" "$(openssl passwd -apr1 b)" > htp
cat > n.conf <<N
daemon off; master_process on; worker_processes 1; pid $D/pid; error_log $D/err.log; user nobody nogroup;
events { worker_connections 64; }
http { access_log $D/access.log combined; client_body_temp_path $D/tmp/b; proxy_temp_path $D/tmp/p; fastcgi_temp_path $D/tmp/f; uwsgi_temp_path $D/tmp/u; scgi_temp_path $D/tmp/s;
 types { text/html html; text/css css; application/pdf pdf; image/jpeg jpg; audio/mpeg mp3; }
 set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; limit_req_zone \$binary_remote_addr zone=z:1m rate=5r/s; limit_req_status 429;
 server { listen 127.0.0.1:18973; root $D/www; client_max_body_size 64k; large_client_header_buffers 4 2k;
  location /staff/ { auth_basic staff; auth_basic_user_file $D/htp; }
  location /collections/search { limit_req zone=z burst=3 nodelay; try_files /collections/search.html =404; }
  location /exhibitions/dinosaurs { return 410; } location /visit { return 301 /opening-hours.html; }
  location /api/booking { proxy_pass http://127.0.0.1:1; } location /newsletter { if (\$request_method = POST) { return 204; } return 405; }
  location /shop/checkout { return 503; } location /upload/ { if (\$request_method = PUT) { return 201; } return 200 'ok'; } location /api/loans/ { if (\$request_method = DELETE) { return 409; } return 200 '[]'; }
 } }
N
pkg/usr/sbin/nginx -p $D -c $D/n.conf >/dev/null 2>&1 & P=$!
sleep 2
cat > c.py <<'PY'
import http.client, random, time, base64
R=random.Random(515)
UA=['Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36','Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1','Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0','Mozilla/5.0 (Macintosh; Intel Mac OS X 14_4) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15']
GB='Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'
B='http://museum.example'
def rq(m,p,ip,ua,ref=None,user=None,body=None,h={}):
    c=http.client.HTTPConnection('127.0.0.1',18973,timeout=5); H={'Host':'museum.example','X-Forwarded-For':ip,'User-Agent':ua}
    if ref: H['Referer']=ref
    if user: H['Authorization']='Basic '+base64.b64encode(user.encode()).decode()
    H.update(h)
    try: c.request(m,p,body=body,headers=H); c.getresponse().read()
    except Exception: pass
    c.close(); time.sleep(.012)
ips=['203.0.113.%d'%i for i in range(2,60)]+['198.51.100.%d'%i for i in range(3,40)]
pages=['/','/opening-hours.html','/exhibitions/','/exhibitions/whale-bones.html','/exhibitions/roman-glass.html','/exhibitions/clockmakers.html','/tickets/','/tickets/family-pass.html','/kids/treasure-hunt.html','/kids/birthday-parties.html','/shop/','/shop/tote-bag.html','/blog/','/blog/restoring-the-mammoth.html','/blog/how-we-moved-a-whale.html','/cafe/menu.html','/about/jobs.html','/collections/beetles/0412.html']
def visit():
    ip=R.choice(ips); ua=R.choice(UA); ref=R.choice([None,'https://www.google.com/','https://duckduckgo.com/','https://www.facebook.com/'])
    for p in R.sample(pages,R.randint(1,2)):
        rq('GET',p,ip,ua,ref); ref=B+p
        for a in R.sample(['/static/app.css','/static/app.js','/static/logo.svg','/img/hero.jpg','/favicon.ico'],R.randint(0,1)): rq('GET',a,ip,ua,ref)
one={12:[('GET','/exhibitions/dinosaurs/t-rex.html','192.0.2.10',GB)],
20:[('GET','/wp-login.php','192.0.2.66','python-requests/2.31.0'),('GET','/.env','192.0.2.66','python-requests/2.31.0'),('POST','/xmlrpc.php','192.0.2.66','python-requests/2.31.0')],
31:[('POST','/upload/lost-property/umbrella-photo.jpg','198.51.100.201',UA[1],B+'/about/lost-property.html',None,'y'*90000)],
44:[('GET','/staff/loans/register.html','198.51.100.77',UA[2]),('GET','/staff/loans/register.html','198.51.100.77',UA[2],None,'curator.ngozi:wrong'),('GET','/staff/loans/register.html','198.51.100.77',UA[2],None,'curator.ngozi:a')],
57:[('GET','/audio-guide/track-14-volcano.mp3','203.0.113.240',UA[1],None,None,None,{'Range':'bytes=200000-299999'})],
66:[('GET','/collections/search?q=narwhal%%20tusk&sort=age&page=%d'%i,'192.0.2.91','Scrapy/2.11.1 (+https://scrapy.org)') for i in range(1,9)],
80:[('POST','/api/booking/school-visit','203.0.113.212',UA[3],B+'/tickets/school-groups.html',None,'n=31')],
93:[('GET','/visit?utm_source=tourist-leaflet&utm_campaign=autumn-rain','203.0.113.9',UA[1])],
101:[('POST','/newsletter/subscribe','198.51.100.14',UA[0],B+'/blog/moth-infestation.html',None,'e=1')],
110:[('GET','/private/donors.xlsx','192.0.2.140','curl/8.5.0')],
121:[('POST','/shop/checkout/step-2?item=ammonite-pendant','203.0.113.17',UA[2],B+'/shop/ammonite-pendant.html',None,'q=1')],
133:[('GET','/press/annual-report-2022.pdf','198.51.100.30',UA[3],'https://dailyherald.example/culture/funding-row')],
140:[('GET','/staff/rota.html','198.51.100.5','Wget/1.21.4',None,'backup-bot:b')],
155:[('DELETE','/api/loans/roman-flask-0099','198.51.100.77',UA[2],B+'/staff/loans/register.html')],
163:[('GET','/accessibility/wheelchair-routes.html','203.0.113.33',UA[0],'https://forum.disabledtravel.example/t/which-museums')],
170:[('GET','/collections/maps/1648-coastline.html?zoom='+'9'*2300,'192.0.2.150','Mozilla/4.0')],
176:[('PUT','/upload/press-kit/mammoth-poster.svg','198.51.100.88','okhttp/4.12.0',None,None,'<svg/>')],
188:[('GET','/about/jobs/night-guard.html','203.0.113.48',UA[1],'https://www.linkedin.com/')],
196:[('GET','/../../etc/passwd','192.0.2.66','Nikto/2.5.0'),('GET','/cgi-bin/test.cgi?cmd=id','192.0.2.66','Nikto/2.5.0')],
205:[('GET','/img/mammoth.jpg','203.0.113.99',UA[0],'https://stolen-pictures.example/gallery?page=7')],
214:[('GET','/kids/birthday-partys.html','203.0.113.55',UA[1],'https://mumsguide.example/rainy-day-ideas')],
222:[('HEAD','/feed.xml','192.0.2.200','Feedly/1.0 (+http://www.feedly.com/fetcher.html; 212 subscribers)')],
230:[('OPTIONS','/api/loans/','192.0.2.222','PostmanRuntime/7.37.3')]}
for i in range(236):
    if i%4: visit()
    if i%9==0: rq('GET',R.choice(pages),'192.0.2.%d'%R.randint(10,14),GB)
    if i%25==0: rq('GET','/robots.txt','192.0.2.30','Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)')
    if i%15==0: rq('GET','/opening-hours.html','192.0.2.2','UptimeRobot/2.0')
    for r in one.get(i,()): rq(*r)
PY
python3 c.py
sleep 1; kill $P; wait $P 2>/dev/null
echo ==OUTPUT==
cat access.log
