# needs: cmake ninja g++ ctest
# packages: cmake 3.25 ninja-build 1.11
set -u
mkdir -p src tests
python3 - <<'P'
libs = ["audio", "codec", "device", "effects", "error", "mixer", "session", "stream"]
open("CMakeLists.txt", "w").write("cmake_minimum_required(VERSION 3.16)\nproject(sonar CXX)\nset(CMAKE_CXX_STANDARD 17)\nset(CMAKE_CXX_FLAGS \"-Wall -Wextra -Wno-sign-compare\")\nenable_testing()\n" + "".join(f"add_library({l} STATIC src/{l}_a.cpp src/{l}_b.cpp)\n" for l in libs) + "add_executable(sonar src/main.cpp)\ntarget_link_libraries(sonar " + " ".join(libs) + ")\nadd_executable(unit tests/unit.cpp)\ntarget_link_libraries(unit audio codec mixer)\n" + "".join(f"add_test(NAME {g}.{c} COMMAND unit {g} {c})\n" for g in ["audio", "codec", "mixer", "error_path"] for c in ["init", "reset", "underflow", "failed_open", "gain", "ramp", "silence", "stop"]))
for l in libs:
    for p in "ab":
        s = f'#include <string>\n#include <vector>\nnamespace {l} {{\nint {p}_failed(const std::vector<int> &v, int error) {{\n    int unused = 0;\n    int sum = 0;\n    for (int x : v) sum += x;\n    return sum;\n}}\nstatic int {p}_never(char *fmt) {{ return fmt[0]; }}\nint {p}_call() {{ return {p}_never("error %d"); }}\n'
        if l == "mixer" and p == "b": s += 'struct Gain { explicit Gain(float db) : db(db) {} float db; };\nGain blend(const std::vector<Gain> &g) {\n    Gain sum = 0.0f;\n    for (const auto &x : g) sum.db += x.db;\n    return sum;\n}\n'
        open(f"src/{l}_{p}.cpp", "w").write(s + "}\n")
open("src/main.cpp", "w").write("namespace audio { int a_call(); }\nint main() { return audio::a_call() == 0; }\n")
open("tests/unit.cpp", "w").write('#include <cstdio>\n#include <cstring>\nint main(int argc, char **argv) {\n    std::printf("case %s/%s\\n", argv[1], argv[2]);\n    return 0;\n}\n')
P
echo ==OUTPUT==
set -x
cmake -S . -B build -G Ninja 2>&1
cmake --build build -j1 -- -k 0 2>&1
status=$?
(cd build && ninja unit) 2>&1
ctest --test-dir build -L fast 2>&1
ls build
exit $status
