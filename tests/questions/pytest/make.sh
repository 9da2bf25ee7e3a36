# needs: python3 pip
# packages: pytest==8.3.4 more-itertools==10.5.0 (sdist, MIT), the latter broken in eight places below
pip download -q --no-deps --no-binary :all: more-itertools==10.5.0 >/dev/null 2>&1; pip install -q --target lib pytest==8.3.4 >/dev/null 2>&1
tar xzf more_itertools-10.5.0.tar.gz 2>/dev/null || tar xzf more-itertools-10.5.0.tar.gz; cd more*10.5.0; m=more_itertools/more.py; r=more_itertools/recipes.py
sed -i 's/self._cache.extendleft(reversed(items))/self._cache.extendleft(items)/' $m
sed -i '224,252s/except (IndexError, TypeError, StopIteration)/except (TypeError, StopIteration)/' $m
sed -i "811,836s/raise ValueError('n must be > 0')/raise IndexError('n must be > 0')/" $m
sed -i '2977,2994s/take(n + 1,/take(n,/' $m
sed -i 's/compare = le if strict else lt/compare = lt if strict else le/' $m
sed -i 's/limit = math.isqrt(n) + 1/limit = math.isqrt(n)/' $r
sed -i 's/return sum(map(operator.mul, vec1, vec2))/return sum(map(operator.add, vec1, vec2))/' $r
sed -i '3454,3522s/cache.append/cache.appendleft/' $m
echo ==OUTPUT==
PYTHONPATH=../lib PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -v -p no:cacheprovider --durations=15 tests 2>&1 | sed "s#$(dirname $PWD)#/build#g"
