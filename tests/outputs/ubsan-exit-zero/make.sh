# needs: g++
# packages: g++ 12 (libubsan1)
set -u
cat > codec.cpp <<'T'
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

enum class Kind : uint8_t { Audio, Video, Text, Error };

static int scale(int sample, int gain) { return sample * gain; }

static uint32_t read32(const uint8_t *p) { return *reinterpret_cast<const uint32_t *>(p); }

static int shift(int v, int by) { return v << by; }

static int pick(const int *table, int i) { return table[i]; }

struct Frame { Kind kind; bool key; int samples[4]; };

static bool is_key(const Frame &f) { return f.key; }

static void decode(int n) {
    std::printf("[%03d] frame decoded, 0 errors\n", n);
    if (n % 9 == 4) std::printf("[%03d] WARNING concealed 2 errors in slice %d\n", n, n % 5);
}

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    std::vector<uint8_t> buf(64, 7);
    int table[4] = {1, 2, 3, 4};
    long sum = 0;
    for (int n = 0; n < 240; n++) {
        decode(n);
        if (n == 71) sum += scale(70000, 40000);
        if (n == 118) sum += read32(buf.data() + 1);
        if (n == 119) sum += shift(1, 31 + (int)(sum & 0) + 2);
        if (n == 160) { Frame f; std::memset(&f, 7, sizeof f); sum += is_key(f); }
        if (n > 200) sum += pick(table, n % 4);
    }
    std::printf("240 frames, checksum %s\n", sum ? "ok" : "error");
    return 0;
}
T
g++ -g -O1 -fsanitize=undefined -w -o codec codec.cpp
echo ==OUTPUT==
UBSAN_OPTIONS=print_stacktrace=1 ./codec 2>&1
