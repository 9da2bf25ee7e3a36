#!/bin/bash
# needs: node make gcc
# packages: none
set -u
export LC_ALL=C.UTF-8 TZ=UTC
NODE_TOOLS=${NODE_TOOLS:-/tmp/outputs-node}
for p in ; do n=${p%@*}; grep -qs "\"version\": \"${p##*@}\"" "$NODE_TOOLS/node_modules/$n/package.json" || (mkdir -p "$NODE_TOOLS"; cd "$NODE_TOOLS" && npm install --no-audit --no-fund --no-save "$p") >/dev/null 2>&1; done
modules() { cp -al "$NODE_TOOLS/node_modules" . 2>/dev/null || cp -a "$NODE_TOOLS/node_modules" .; }
export npm_config_userconfig=/dev/null npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
clean() { sed -u -e "s#$NODE_TOOLS/node_modules#/home/dev/app/node_modules#g" -e "s#$NODE_TOOLS#/home/dev/app#g" -e "s#$HOME/#/home/dev/#g"; }
export npm_config_offline=true npm_config_cache=$PWD/.npm npm_config_loglevel=notice
python3 - <<'P'
import json, os, tarfile, io
os.makedirs("tgz", exist_ok=True)
def pack(name, version, files=None, **pkg):
    d = {"name": name, "version": version, "license": "MIT", **pkg}
    with tarfile.open(f"tgz/{name.replace('@','').replace('/','-')}-{version}.tgz", "w:gz") as t:
        for f, s in {"package.json": json.dumps(d, indent=2), **(files or {})}.items():
            i = tarfile.TarInfo("package/" + f); i.size = len(s.encode()); t.addfile(i, io.BytesIO(s.encode()))
for i in range(24):
    pack(f"error-kit-{i}", f"1.{i}.0", deprecated="old")
src = {f"src/{n}.c": f"static int {n}_error(int code) {{ return code; }}\nint {n}_init(unsigned n) {{ int failed; return n < -1; }}\n" for n in "aes blake cbc crc ctr des error failover gcm hkdf io kdf mac ocb pbkdf rand sha siv wipe xor".split()}
src["src/gcm.c"] = "#include <tomcrypt.h>\n" + src["src/gcm.c"]
src["Makefile"] = "OBJS = $(patsubst src/%.c,obj/%.o,$(wildcard src/*.c))\nobj/native.a: $(OBJS)\n\tar rcs $@ $^\nobj/%.o: src/%.c\n\t@mkdir -p obj\n\tgcc -Wall -Wextra -O2 -c $< -o $@\n"
src["build.js"] = "const { spawnSync } = require('child_process');\nconst r = spawnSync('make', ['-k'], { stdio: 'inherit' });\nif (r.status) { console.error('native-seal: build failed, the JavaScript fallback is disabled by NATIVE_REQUIRED=1'); process.exit(r.status); }\n"
pack("native-seal", "4.0.2", src, scripts={"install": "node build.js"})
pack("ui-core", "18.3.1"); pack("ui-core", "19.0.0")
pack("ui-forms", "6.1.0", peerDependencies={"ui-core": "^18.0.0"})
pack("ui-charts", "2.0.0", peerDependencies={"ui-core": "^19.0.0"})
P
mkdir web api tools
f() { echo "file:../tgz/$1.tgz"; }
cat > web/package.json <<X
{"name":"web","version":"1.0.0","dependencies":{"ui-core":"$(f ui-core-19.0.0)","ui-forms":"$(f ui-forms-6.1.0)","ui-charts":"$(f ui-charts-2.0.0)"}}
X
cat > api/package.json <<X
{"name":"api","version":"1.0.0","dependencies":{"native-seal":"$(f native-seal-4.0.2)","error-kit-1":"$(f error-kit-1-1.1.0)"}}
X
python3 - <<'P'
import json
json.dump({"name": "tools", "version": "1.0.0", "dependencies": {f"error-kit-{i}": f"file:../tgz/error-kit-{i}-1.{i}.0.tgz" for i in range(24)}}, open("tools/package.json", "w"))
P
run() {
  rc=0
  for d in tools web api; do echo "### npm install in $d"; (cd $d && npm install --foreground-scripts --no-audit --no-fund) || { rc=$?; echo "### $d: npm install exited with $rc"; }; done
  (cd tools && npm ls --long=false && npm outdated; npm pkg get dependencies)
  return $rc
}
echo ==OUTPUT==
run 2>&1 | clean
exit ${PIPESTATUS[0]}
