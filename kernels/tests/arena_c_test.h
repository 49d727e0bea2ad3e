/* The test that a C compiler builds, called by the C++ test program. */
#ifndef EDGEMEM_TESTS_ARENA_C_TEST_H
#define EDGEMEM_TESTS_ARENA_C_TEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or the line of arena_c_test.c whose expectation failed. */
int record_and_replay(void);

#ifdef __cplusplus
}
#endif

#endif
