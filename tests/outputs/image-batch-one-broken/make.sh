# needs: convert identify (ImageMagick 6.9) ffmpeg
# packages: imagemagick ffmpeg
mkdir in out
{ for i in $(seq -w 1 40); do /usr/bin/convert -seed $((10#$i)) -size 64x48 plasma: in/photo-$i.png; done; /usr/bin/convert -size 64x48 xc:red in/error-banner.png
for i in 1 2 3; do ffmpeg -y -f lavfi -i testsrc=d=1:s=64x48:r=5 -c:v mpeg4 in/clip-$i.mp4; done; } >/dev/null 2>&1
head -c 1500 in/photo-17.png > t && mv t in/photo-17.png; head -c 2600 in/clip-2.mp4 > t && mv t in/clip-2.mp4
cat > thumbs.sh <<'S'
rc=0
for f in in/*.png; do convert -verbose "$f" -thumbnail 32x24 "out/$(basename "$f" .png).jpg" || rc=1; done
for f in in/*.mp4; do ffmpeg -hide_banner -nostdin -y -i "$f" -vf fps=1 "out/$(basename "$f" .mp4)-%02d.png" || rc=1; done
identify out/*.jpg
echo "$(ls out | wc -l) files written"
exit $rc
S
sed -i 's/^for f in in\/\*.png; do convert/for f in in\/*.png; do \/usr\/bin\/convert/' thumbs.sh
echo ==OUTPUT==
bash thumbs.sh 2>&1
