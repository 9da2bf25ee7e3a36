# needs: git
# packages: git 2.47
set -u
export GIT_CONFIG_GLOBAL=$PWD/.gitconfig GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2024-05-02T08:00:00Z' GIT_COMMITTER_DATE='2024-05-02T08:00:00Z'
git config --global user.name 'Sam Example'; git config --global user.email sam@example.com; git config --global init.defaultBranch main
git init -q --bare origin.git
cat > origin.git/hooks/update <<'T'
#!/bin/sh
echo "policy: checking $1"
case $1 in
refs/heads/error-*) echo "policy: note: names with error are fine" ;;
refs/heads/release/2.4) echo "policy: commit $(git rev-parse --short $3) on release/2.4 has no Signed-off-by line"; exit 1 ;;
esac
echo "policy: ok"
T
chmod +x origin.git/hooks/update
git init -q repo && cd repo
git remote add origin ../origin.git
(
for i in $(seq 1 8); do echo $i > file$i; git add -A; git commit -qm "Commit $i"; done
for i in $(seq 10 69); do git branch topic/worker-$i HEAD~$((i % 6)); done
for b in error-pages error-codes failed-logins rejected-mail; do git branch $b HEAD~2; done
git branch release/2.4; git branch release/2.3 HEAD~3
git push -q origin main~4:refs/heads/main topic/worker-33
git clone -q ../origin.git ../other && cd ../other && git checkout -q topic/worker-33 && echo other > other && git add -A && git commit -qm 'Work of another' && git push -q origin topic/worker-33
) >/dev/null 2>&1
echo ==OUTPUT==
git push --verbose --progress --all origin 2>&1
