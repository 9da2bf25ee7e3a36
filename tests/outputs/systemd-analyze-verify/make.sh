# needs: systemd-analyze
# packages: systemd
mkdir units; cd units; for t in sysinit basic shutdown network multi-user timers; do echo "[Unit]" > $t.target; done; printf "[Unit]\nDescription=Root Slice\n" > ./-.slice; printf "[Unit]\nDescription=System Slice\n" > system.slice
for i in $(seq -w 1 110); do
cat > app-$i.service <<U
[Unit]
Description=Worker $i
After=network.target app-db.service
[Service]
ExecStart=/bin/sleep infinity
Restart=on-failure
StandardError=journal
[Install]
WantedBy=multi-user.target
U
done
for i in 003 008 015 019 077 101; do sed -i 's/^Restart=.*/Restart=on-failure\nMemoryLimit=200M/' app-$i.service; done
for i in 005 006 007 066 102; do sed -i 's/^StandardError=journal/StandardOutput=syslog/' app-$i.service; done
for i in 002 011 020 088; do sed -i 's/^Restart=on-failure/Restart=on-failure\nRestartSecs=5/' app-$i.service; done
sed -i 's#^ExecStart=.*#ExecStart=/opt/shop/bin/worker --queue=mail#' app-042.service
printf '[Unit]\nDescription=Database\n[Service]\nExecStart=/bin/true\nType=oneshot\n' > app-db.service
printf '[Unit]\nDescription=Error reporter\nRequires=app-db.service\nAfter=app-db.service\n[Service]\nType=oneshot\nExecStart=/bin/false\n' > app-errors.service
printf '[Timer]\nOnCalendar=*-*-* 25:00:00\n' > app-061-backup.timer
printf '[Unit]\nDescription=Backup\n[Service]\nExecStart=/bin/true\n' > app-061-backup.service
echo ==OUTPUT==
rc=0
for u in $(ls *.service *.timer | sort); do echo "verifying $u"; SYSTEMD_UNIT_PATH=$PWD systemd-analyze verify --man=no --generators=no $PWD/$u 2>&1 || rc=1; done
echo "done: $(ls | wc -l) units"
exit $rc
