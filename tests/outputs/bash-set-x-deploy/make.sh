# needs: bash tar gzip
# packages: none
set -u
mkdir -p site/pages site/assets releases shared
for i in $(seq 1 30); do echo "page $i: error handling, chapter $i" > site/pages/page-$i.md; done
for a in app.css app.js error.svg logo.svg; do echo "$a" > site/assets/$a; done
echo 'retries=3' > shared/deploy.env
cat > deploy.sh <<'T'
#!/usr/bin/env bash
set -Eeuo pipefail
PS4='+ ${BASH_SOURCE##*/}:${LINENO}: '
set -x
root=$PWD
release=$root/releases/20240502081100
trap 'cleanup $?' EXIT

cleanup() {
    echo "deploy: cleaning up (status $1)"
    rm -rf "$root/tmp"
    for f in "$root"/site/pages/page-{1..12}.md; do
        test -e "$f.lock" && rm "$f.lock" || true
    done
    grep -c error "$root/deploy.log" 2>/dev/null || echo "deploy: no error log kept"
    echo "deploy: lock released"
}

render() {
    local in=$1 out=$2
    sed -e 's/^/<p>/' -e 's,$,</p>,' "$in" > "$out"
}

retry() {
    local n=0
    until "$@"; do
        n=$((n + 1))
        if ((n > 3)); then return 1; fi
        echo "deploy: attempt $n failed, retrying" >&2
    done
}

flaky() { local c; c=$(cat "$root/tmp/count" 2>/dev/null || echo 0); echo $((c + 1)) > "$root/tmp/count"; ((c >= 2)); }

mkdir -p "$release" tmp
source shared/deploy.env
retry flaky
for p in site/pages/*.md; do
    render "$p" "$release/$(basename "$p" .md).html"
done
cp -r site/assets "$release/"
command -v brotli >/dev/null || echo "deploy: warning: brotli not found, only gzip" >&2
gzip -k -9 "$release"/*.html
count=$(ls "$release"/*.html | wc -l)
test "$count" -eq 30
sums=$(cd "$release" && sha256sum *.html | sort | tee SUMS | wc -l)
sha256sum --quiet -c "$root/shared/assets.sha256" | tee -a tmp/verify.log
ln -sfn "$release" current
echo "deploy: done"
T
(cd site/assets && sha256sum app.css app.js error.svg logo.svg) > shared/assets.sha256
sed -i 's,  ,  site/assets/,' shared/assets.sha256
echo '/* hot fix */' >> site/assets/app.js
echo ==OUTPUT==
bash deploy.sh 2>&1
