/* A library as for Android: it declares bionic's interfaces itself, and tells whether the shim keeps them. Compiled
   without glibc's headers and libraries, with bionic's stack guard. */
typedef unsigned long size_t;
typedef long Mutex[5];      /* 40 bytes */
typedef long Attributes[7]; /* 56 bytes */

extern char __sF[3][152];
extern void* stdout;
int* __errno(void);
int __android_log_print(int, const char*, const char*, ...);
int __system_property_get(const char*, char*);
int fflush(void*);
int fputs(const char*, void*);
void* malloc(size_t);
void free(void*);
void* memset(void*, int, size_t);
int open(const char*, int, ...);
int pthread_attr_init(Attributes*);
int pthread_attr_setstacksize(Attributes*, size_t);
int pthread_cond_broadcast(int*);
int pthread_cond_signal(int*);
int pthread_cond_timedwait(int*, Mutex*, const long*);
int pthread_cond_wait(int*, Mutex*);
int pthread_create(long*, const Attributes*, void* (*)(void*), void*);
int pthread_join(long, void**);
int pthread_mutex_init(Mutex*, const void*);
int pthread_mutex_lock(Mutex*);
int pthread_mutex_unlock(Mutex*);
int pthread_sigmask(int, const unsigned long*, unsigned long*);
int sigfillset(unsigned long*);
double sin(double);
long sysconf(int);
int strerror_r(int, char*, size_t);
int strcmp(const char*, const char*);
void* dlopen(const char*, int);

/* A structure of bionic's size between two walls that glibc must not touch. */
#define WALLED(type, name) \
  struct {                 \
    long before;           \
    type value;            \
    long after;            \
  } name = {.before = 0x5a5a, .after = 0x5a5a}
#define STANDS(name) ((name).before == 0x5a5a && (name).after == 0x5a5a)

static Mutex counting;
static long count;
static int ended;

/* A condition of bionic's 48 bytes may begin at any multiple of 4. */
static struct {
  int other __attribute__((aligned(8)));
  int condition[12];
} odd;

static void* add(void* given) {
  volatile char room[256]; /* so that the function has a stack guard */
  room[0] = 0;
  for (int i = 0; i < 10000; i++) {
    pthread_mutex_lock(&counting);
    count += room[0] + 1;
    pthread_mutex_unlock(&counting);
  }
  pthread_mutex_lock(&counting);
  ended++;
  pthread_cond_signal(odd.condition);
  pthread_mutex_unlock(&counting);
  return given;
}

/* 0, or the line of the first fault. */
#define CHECK(condition) \
  do {                   \
    if (!(condition)) {  \
      return __LINE__;   \
    }                    \
  } while (0)

int probe(void) {
  CHECK(open("/there/is/none", 0) == -1 && *__errno() == 2);
  CHECK(sysconf(0x27) >= 4096 && sysconf(0x61) >= 1);
  char text[92];
  CHECK(__system_property_get("ro.build.version.sdk", text) == 0 && text[0] == 0);
  CHECK(strerror_r(2, text, sizeof text) == 0 && strcmp(text, "No such file or directory") == 0);
  CHECK(strerror_r(2, text, 3) != 0);
  CHECK(sin(0.0) == 0.0);
  CHECK(dlopen("libneuralnetworks.so", 2) == 0);

  WALLED(unsigned long, signals);
  WALLED(unsigned long, before);
  sigfillset(&signals.value);
  CHECK(pthread_sigmask(2, &signals.value, &before.value) == 0 && STANDS(signals) && STANDS(before));
  CHECK(pthread_sigmask(2, &before.value, 0) == 0);

  WALLED(Mutex, mutex);
  CHECK(pthread_mutex_init(&mutex.value, 0) == 0 && STANDS(mutex));
  CHECK(pthread_mutex_lock(&mutex.value) == 0 && pthread_mutex_unlock(&mutex.value) == 0 && STANDS(mutex));
  WALLED(Attributes, attributes);
  CHECK(pthread_attr_init(&attributes.value) == 0 && STANDS(attributes));
  CHECK(pthread_attr_setstacksize(&attributes.value, 1 << 20) == 0 && STANDS(attributes));
  long threads[4];
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_create(&threads[i], &attributes.value, add, 0) == 0);
  }
  pthread_mutex_lock(&counting);
  while (ended < 4) {
    CHECK(pthread_cond_wait(odd.condition, &counting) == 0);
  }
  const long past[2] = {1, 0};
  CHECK(pthread_cond_timedwait(odd.condition, &counting, past) == 110); /* ETIMEDOUT */
  CHECK(pthread_cond_broadcast(odd.condition) == 0);
  pthread_mutex_unlock(&counting);
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], 0) == 0);
  }
  CHECK(count == 40000);

  void* block = malloc(1000);
  CHECK(block != 0);
  memset(block, 1, 1000);
  free(block);
  CHECK(__android_log_print(4, "probe", "%d and %s", 7, "eight") > 0);
  CHECK(fputs("through __sF\n", __sF[1]) >= 0 && fputs("through stdout\n", stdout) >= 0 && fflush(__sF[1]) == 0);
  return 0;
}
