#include "base/number.h"

#include <math.h>
#include "test.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static bool is_nan16(uint16_t h) { return (h & 0x7FFF) > 0x7C00; }

static void f16_to_f32_follows_the_formula(void)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        int    exponent = h >> 10 & 31, mantissa = h & 0x3FF;
        double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        float  got = f16_to_f32((uint16_t)h);
        if (is_nan16((uint16_t)h))
            CHECK(isnan(got) && (f32_bits(got) & 0x400000), "%04x is not a quiet NaN", h);
        else if (exponent == 31)
            CHECK(isinf(got) && !!signbit(got) == (int)(h >> 15), "%04x", h);
        else
            CHECK((double)got == (h >> 15 ? -magnitude : magnitude)
                      && !!signbit(got) == (int)(h >> 15),
                  "%04x gave %a", h, (double)got);
    }
}

static void f16_survives_the_way_there_and_back(void)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t back = f32_to_f16(f16_to_f32((uint16_t)h));
        CHECK(back == (is_nan16((uint16_t)h) ? h | 0x200 : h), "%04x became %04x", h, back);
    }
}

static void bytes_of_8_bits_follow_the_formula(void)
{
    for (int h = 0; h < 256; h++) {
        int    exponent = h >> 3 & 15, mantissa = h & 7;
        double magnitude = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        float  got = e4m3_to_f32((uint8_t)h), power = e8m0_to_f32((uint8_t)h);
        if ((h & 127) == 127)
            CHECK(isnan(got), "%02x is not NaN", h);
        else
            CHECK((double)got == (h >> 7 ? -magnitude : magnitude) && !!signbit(got) == h >> 7,
                  "%02x gave %a", h, (double)got);
        CHECK(h == 255 ? isnan(power) : (double)power == ldexp(1, h - 127), "%02x gave %a", h,
              (double)power);
    }
}

/* Halfway between two neighbours goes to the even one, a hair beside it to the nearer. */
static void f32_to_f16_rounds_to_nearest_even(void)
{
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        float low = f16_to_f32((uint16_t)h), high = f16_to_f32((uint16_t)(h + 1)),
              mid = (low + high) / 2;
        CHECK(f32_to_f16(mid) == (h & 1 ? h + 1 : h), "middle above %04x", h);
        CHECK(f32_to_f16(nextafterf(mid, low)) == h && f32_to_f16(nextafterf(mid, high)) == h + 1,
              "beside the middle above %04x", h);
        CHECK(f32_to_f16(-mid) == (0x8000 | (h & 1 ? h + 1 : h)), "middle below -%04x", h);
    }
    CHECK(f32_to_f16(65519.996f) == 0x7BFF && f32_to_f16(65520) == 0x7C00
              && f32_to_f16(-INFINITY) == 0xFC00,
          "overflow");
    CHECK(f32_to_f16(0x1p-25f) == 0 && f32_to_f16(0x1.000002p-25f) == 1
              && f32_to_f16(-1e-30f) == 0x8000,
          "underflow");
}

static void bf16_rounds_to_nearest_even(void)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = bf16_to_f32((uint16_t)h);
        CHECK(isnan(f) ? f32_to_bf16(f) == (h | 0x40) : f32_to_bf16(f) == h, "%04x became %04x", h,
              f32_to_bf16(f));
        if ((h & 0x7F80) == 0x7F80)
            continue;
        uint32_t mid = h << 16 | 0x8000;
        CHECK(f32_to_bf16(f32_from(mid)) == h + (h & 1), "middle above %04x", h);
        CHECK(f32_to_bf16(f32_from(mid - 1)) == h && f32_to_bf16(f32_from(mid + 1)) == h + 1,
              "beside the middle above %04x", h);
    }
    CHECK(f32_to_bf16(f32_from(0x7F800001)) == 0x7FC0
              && f32_to_bf16(f32_from(0xFF80FFFF)) == 0xFFC0,
          "a NaN of the low half");
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware_to_f16(float f)
{
    return (uint16_t)_cvtss_sh(f, 0);
}
__attribute__((target("f16c"))) static float    hardware_to_f32(uint16_t h) { return _cvtsh_ss(h); }

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static void conversions_equal_the_hardware(void)
{
    if (!has_f16c()) {
        SKIP("this CPU has no F16C");
        return;
    }
    for (uint32_t h = 0; h < 0x10000; h++)
        CHECK(f32_bits(f16_to_f32((uint16_t)h)) == f32_bits(hardware_to_f32((uint16_t)h)), "%04x",
              h);
    /* a dense sample of all floats, and everything around the middles of f16 neighbours;
     * TEST_ALL=1: every float */
    uint32_t step = getenv("TEST_ALL") ? 1 : 1009;
    for (uint64_t u = 0; u <= UINT32_MAX; u += step)
        CHECK(f32_to_f16(f32_from((uint32_t)u)) == hardware_to_f16(f32_from((uint32_t)u)), "%08x",
              (unsigned)u);
    for (uint32_t u = 0x32000000; u < 0x48000000; u += 0x800)
        for (uint32_t near = u - 2; near != u + 3; near++)
            CHECK(f32_to_f16(f32_from(near)) == hardware_to_f16(f32_from(near)), "%08x", near);
}
#else
static void conversions_equal_the_hardware(void) { SKIP("written for F16C"); }
#endif

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(f16_to_f32_follows_the_formula);
    TEST(f16_survives_the_way_there_and_back);
    TEST(bytes_of_8_bits_follow_the_formula);
    TEST(f32_to_f16_rounds_to_nearest_even);
    TEST(bf16_rounds_to_nearest_even);
    TEST(conversions_equal_the_hardware);
    return TEST_END();
}
