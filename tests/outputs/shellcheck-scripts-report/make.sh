# needs: shellcheck
# packages: shellcheck 0.9
set -u
mkdir -p scripts
python3 - <<'P'
for n in ["backup", "build", "check-errors", "clean", "deploy", "fail-over", "install", "migrate", "notify", "release"]:
    s = f'''#!/bin/bash
# {n}: part of the tools
TARGET=$1
ERROR_LOG=/var/log/{n}-error.log
if [ -z $TARGET ]; then
  echo "error: no target given"
  exit 1
fi
for f in `find $TARGET -type f`; do
  cp $f /tmp/{n}/$f || echo "failed: $f" >> $ERROR_LOG
done
cat $ERROR_LOG | grep error | wc -l
cd /srv/{n}
failed=$(ls *.tmp)
unused="{n}"
if [ $? -ne 0 ]; then echo failed; fi
'''
    if n == "migrate": s += 'rollback() {\n  if [ "$TARGET" = "prod" ]; then\n    echo "rolling back\n    rm -rf "$TARGET/"*\n  fi\n}\nrollback\n'
    if n == "clean": s += 'rm -rf "$PREFIX/"*\n'
    open(f"scripts/{n}.sh", "w").write(s)
P
echo ==OUTPUT==
shellcheck --color=never scripts/*.sh 2>&1
