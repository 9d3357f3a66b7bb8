# matches EXPECTED ACTUAL: whether the lines agree; a file that does not exist is empty
matches() {
    awk -v expected="$1" -v actual="$2" '
        function fits(i, j) { # do expected lines i.. fit actual lines j..
            for (; i <= n_e; i++) {
                if (e[i] == "...") {
                    if (i == n_e) return 1
                    for (; j <= n_a + 1; j++) if (fits(i + 1, j)) return 1
                    return 0
                }
                if (j > n_a || (e[i] "") != (a[j] "")) return 0
                j++
            }
            return j == n_a + 1
        }
        BEGIN {
            while ((getline line < expected) > 0) e[++n_e] = line
            while ((getline line < actual) > 0) a[++n_a] = line
            exit !fits(1, 1)
        }'
}
