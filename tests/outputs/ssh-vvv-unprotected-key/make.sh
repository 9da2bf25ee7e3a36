# needs: ssh sshd ssh-keygen
# packages: openssh-client openssh-server
here=$PWD; unset SSH_AUTH_SOCK; mkdir -p /run/sshd
{ ssh-keygen -q -t ed25519 -N '' -C deploy -f host; ssh-keygen -q -t ed25519 -N '' -C deploy -f id_deploy; ssh-keygen -q -t rsa -b 2048 -N '' -C old -f id_old; } >/dev/null 2>&1
chmod 644 id_deploy; echo "[127.0.0.1]:12222 $(cut -d' ' -f1,2 host.pub)" > known_hosts
printf 'Port 12222\nListenAddress 127.0.0.1\nHostKey %s/host\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nLogLevel QUIET\nStrictModes no\nAuthorizedKeysFile %s/authorized\nBanner %s/banner\n' "$here" "$here" "$here" > sshd_config; cp id_deploy.pub authorized; chmod 644 authorized; chmod 755 "$here"
{ echo "*******************************************************"; for i in $(seq 1 12); do echo "* Rule $i: failed logins and errors are recorded.      *"; done; echo "*******************************************************"; } > banner
/usr/sbin/sshd -D -f "$here/sshd_config" >/dev/null 2>&1 & d=$!
trap 'kill $d 2>/dev/null' EXIT
sleep 1
cat > deploy.sh <<'S'
O="-F /dev/null -o UserKnownHostsFile=known_hosts -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectTimeout=3"
echo "deploy: looking for the jump host"
ssh $O -o ConnectionAttempts=2 -p 12223 backup@127.0.0.1 true || echo "deploy: no jump host (ok, direct connection)"
ssh -vvv $O -i id_deploy -i id_old -i id_missing -p 12222 backup@127.0.0.1 uptime; rc=$?
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "deploy: skipping step $i of 12 (not connected)"; done
for f in app web mail db; do echo "deploy: unlocking $f"; done
echo "deploy: done, see log"
exit $rc
S
echo ==OUTPUT==
bash deploy.sh 2>&1 | sed -e "s#$HOME/#/home/dev/#g"
exit ${PIPESTATUS[0]}
