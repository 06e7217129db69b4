/* Writes numbered lines of 100 bytes, 80 per write, as fast as the reader takes them: write_lines COUNT.
   A line: the rank, a space, ten digits, a space, padding, a newline. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 100, LINES = 80, BLOCK = LINE * LINES, FIRST_DIGIT = 2, TENS = 10 };

/* Adds 80 in place: formatting every number would cost more than writing it. */
static void advance(char *line) {
    int carry = LINES / 10;
    for (int at = TENS; carry && at >= FIRST_DIGIT; at--) {
        int digit = line[at] - '0' + carry;
        line[at] = (char)('0' + digit % 10);
        carry = digit / 10;
    }
}

static int write_all(const char *from, size_t left) {
    while (left) {
        ssize_t written = write(STDOUT_FILENO, from, left);
        if (written < 0) return 1;
        from += written;
        left -= (size_t)written;
    }
    return 0;
}

int main(int argc, char **argv) {
    static char block[BLOCK];
    const char *rank = getenv("RANK");
    long count = argc > 1 ? atol(argv[1]) : 0;
    memset(block, 'x', BLOCK);
    for (int number = 0; number < LINES; number++) {
        char *line = block + number * LINE;
        memset(line, '0', TENS + 2);
        line[0] = rank ? rank[0] : '0';
        line[1] = line[TENS + 2] = ' ';
        line[TENS] = (char)('0' + number / 10);
        line[TENS + 1] = (char)('0' + number % 10);
        line[LINE - 1] = '\n';
    }
    for (long done = 0; done < count; done += LINES) {
        if (write_all(block, BLOCK)) return 1;
        for (int number = 0; number < LINES; number++) advance(block + number * LINE);
    }
    return 0;
}
