// The natives of the Java class ai.edgemem.Native: the C ABI with Java's arrays, texts and exceptions.
//
// EM_REFUSED, a handle of 0, and a plan file that cannot be read for whatever reason, is an IllegalArgumentException;
// every other failure an IllegalStateException, both with the text of em_last_error. A handle is a pointer, so Java
// passes only what it got here and has not released.
#include <dlfcn.h>
#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <vector>

#include "android/edgemem_android.h"

namespace {

void fail(JNIEnv* env, const char* type, const char* why) {
  if (env->ExceptionCheck()) return;
  char ascii[512];  // ThrowNew takes no UTF-8 but Java's own
  std::size_t count = 0;
  for (; why[count] != 0 && count + 1 < sizeof ascii; ++count) {
    ascii[count] = static_cast<unsigned char>(why[count]) < 0x80 ? why[count] : '?';
  }
  ascii[count] = 0;
  if (jclass found = env->FindClass(type)) env->ThrowNew(found, ascii);
}

void refuse(JNIEnv* env, const char* why) { fail(env, "java/lang/IllegalArgumentException", why); }

// Whether the status is a success; throws if it is none.
bool check(JNIEnv* env, std::int32_t status) {
  if (status == EM_OK) return true;
  fail(env, status == EM_REFUSED ? "java/lang/IllegalArgumentException" : "java/lang/IllegalStateException",
       em_last_error());
  return false;
}

template <typename Type>
Type* from_handle(JNIEnv* env, jlong handle) {
  if (handle == 0) refuse(env, "the handle is closed");
  return reinterpret_cast<Type*>(static_cast<std::intptr_t>(handle));
}

jlong handle_of(const void* pointer) { return static_cast<jlong>(reinterpret_cast<std::intptr_t>(pointer)); }

jlongArray longs(JNIEnv* env, const std::vector<jlong>& values) {
  jlongArray array = env->NewLongArray(static_cast<jsize>(values.size()));
  if (array != nullptr) env->SetLongArrayRegion(array, 0, static_cast<jsize>(values.size()), values.data());
  return array;
}

// A Java string of UTF-8, which NewStringUTF does not take: its UTF-8 is another one. The library gives no other bytes.
jstring text(JNIEnv* env, const char* utf8) {
  std::vector<jchar> units;
  for (const auto* at = reinterpret_cast<const unsigned char*>(utf8); *at != 0;) {
    const unsigned lead = *at++;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    std::uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 0; k < more && *at != 0; ++k) point = point << 6 | (*at++ & 0x3Fu);
    if (point >= 0x10000) {
      units.push_back(static_cast<jchar>(0xD800 + ((point - 0x10000) >> 10)));
      point = 0xDC00 + ((point - 0x10000) & 0x3FF);
    }
    units.push_back(static_cast<jchar>(point));
  }
  return env->NewString(units.data(), static_cast<jsize>(units.size()));
}

template <typename Text>
jobjectArray texts(JNIEnv* env, std::size_t count, Text text_at) {
  jclass type = env->FindClass("java/lang/String");
  jobjectArray array = type == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(count), type, nullptr);
  for (std::size_t k = 0; array != nullptr && k < count; ++k) {
    jstring made = text(env, text_at(k));
    if (made == nullptr) return nullptr;
    env->SetObjectArrayElement(array, static_cast<jsize>(k), made);
    env->DeleteLocalRef(made);
  }
  return array;
}

jobjectArray names_of(JNIEnv* env, const std::vector<em_record>& records) {
  return texts(env, records.size(), [&](std::size_t k) { return records[k].name; });
}

jlongArray numbers_of(JNIEnv* env, const std::vector<em_record>& records) {
  std::vector<jlong> values;
  for (const em_record& r : records) values.insert(values.end(), {r.first, r.last, r.size, r.offset, r.kind});
  return longs(env, values);
}

bool plan_set(JNIEnv* env, jlong file, jint set, em_planset& out) {
  const auto* from = from_handle<const em_planfile>(env, file);
  return from != nullptr && check(env, em_planfile_set(from, set, &out));
}

// False, with an exception, if there is no such plan set.
bool records_in(JNIEnv* env, jlong file, jint set, std::vector<em_record>& out) {
  em_planset found;
  if (!plan_set(env, file, set, found)) return false;
  out.resize(static_cast<std::size_t>(found.records));
  for (std::size_t k = 0; k < out.size(); ++k) {
    em_planfile_record(from_handle<const em_planfile>(env, file), set, static_cast<int64_t>(k), &out[k]);
  }
  return true;
}

bool places_in(JNIEnv* env, jlong session, std::vector<em_record>& out) {
  auto* from = from_handle<em_session>(env, session);
  if (from == nullptr) return false;
  out.resize(static_cast<std::size_t>(em_session_places(from, 0, nullptr)));
  em_session_places(from, static_cast<int64_t>(out.size()), out.data());
  return true;
}

// Lets no C++ exception into Java: they are all of memory.
template <typename Result, typename Call>
Result guarded(JNIEnv* env, Result otherwise, Call call) noexcept {
  try {
    return call();
  } catch (const std::exception&) {
    fail(env, "java/lang/IllegalStateException", "no memory");
  }
  return otherwise;
}

}  // namespace

extern "C" {

JNIEXPORT jint JNICALL Java_ai_edgemem_Native_abi(JNIEnv*, jclass) { return em_abi(); }

JNIEXPORT jlong JNICALL Java_ai_edgemem_Native_planfileRead(JNIEnv* env, jclass, jbyteArray bytes, jint form) {
  if (bytes == nullptr) {
    refuse(env, "there are no bytes to read");
    return 0;
  }
  const jsize count = env->GetArrayLength(bytes);
  jbyte* data = env->GetByteArrayElements(bytes, nullptr);
  if (data == nullptr) return 0;  // an exception is on its way
  em_planfile* file = em_planfile_read(data, count, form);
  env->ReleaseByteArrayElements(bytes, data, JNI_ABORT);
  if (file == nullptr) refuse(env, em_last_error());
  return handle_of(file);
}

JNIEXPORT void JNICALL Java_ai_edgemem_Native_planfileRelease(JNIEnv* env, jclass, jlong file) {
  em_planfile_release(from_handle<em_planfile>(env, file));
}

JNIEXPORT jint JNICALL Java_ai_edgemem_Native_planfileSets(JNIEnv* env, jclass, jlong file) {
  return static_cast<jint>(em_planfile_sets(from_handle<const em_planfile>(env, file)));
}

JNIEXPORT jlongArray JNICALL Java_ai_edgemem_Native_planfileSetNumbers(JNIEnv* env, jclass, jlong file, jint set) {
  return guarded<jlongArray>(env, nullptr, [&]() -> jlongArray {
    em_planset s;
    if (!plan_set(env, file, set, s)) return nullptr;
    return longs(env,
                 {s.kind, s.is_usable, s.arena, s.lower_bound, s.naive, s.alignment, s.records, s.steps, s.is_optimal});
  });
}

JNIEXPORT jobjectArray JNICALL Java_ai_edgemem_Native_planfileSetTexts(JNIEnv* env, jclass, jlong file, jint set) {
  return guarded<jobjectArray>(env, nullptr, [&]() -> jobjectArray {
    em_planset s;
    if (!plan_set(env, file, set, s)) return nullptr;
    const char* const all[] = {s.target, s.digest, s.strategy, s.runtime, s.version, s.model};
    return texts(env, 6, [&](std::size_t k) { return all[k]; });
  });
}

JNIEXPORT jobjectArray JNICALL Java_ai_edgemem_Native_planfileRecordNames(JNIEnv* env, jclass, jlong file, jint set) {
  return guarded<jobjectArray>(env, nullptr, [&]() -> jobjectArray {
    std::vector<em_record> records;
    return records_in(env, file, set, records) ? names_of(env, records) : nullptr;
  });
}

JNIEXPORT jlongArray JNICALL Java_ai_edgemem_Native_planfileRecordNumbers(JNIEnv* env, jclass, jlong file, jint set) {
  return guarded<jlongArray>(env, nullptr, [&]() -> jlongArray {
    std::vector<em_record> records;
    return records_in(env, file, set, records) ? numbers_of(env, records) : nullptr;
  });
}

JNIEXPORT jlong JNICALL Java_ai_edgemem_Native_sessionCreate(JNIEnv* env, jclass, jlong file, jint flags) {
  em_session* session =
      em_session_create(reinterpret_cast<const em_planfile*>(static_cast<std::intptr_t>(file)), flags);
  if (session == nullptr) fail(env, "java/lang/IllegalStateException", em_last_error());
  return handle_of(session);
}

JNIEXPORT void JNICALL Java_ai_edgemem_Native_sessionBegin(JNIEnv* env, jclass, jlong session) {
  auto* used = from_handle<em_session>(env, session);
  if (used != nullptr) check(env, em_session_begin(used));
}

JNIEXPORT jlongArray JNICALL Java_ai_edgemem_Native_sessionEnd(JNIEnv* env, jclass, jlong session) {
  return guarded<jlongArray>(env, nullptr, [&]() -> jlongArray {
    auto* used = from_handle<em_session>(env, session);
    em_run r;
    if (used == nullptr || !check(env, em_session_end(used, &r))) return nullptr;
    return longs(env, {r.source, r.is_complete, r.planned, r.arena, r.measured, r.lower_bound, r.naive, r.requests,
                       r.hits, r.misses, r.heap_peak, r.replans});
  });
}

JNIEXPORT jobjectArray JNICALL Java_ai_edgemem_Native_sessionPlaceNames(JNIEnv* env, jclass, jlong session) {
  return guarded<jobjectArray>(env, nullptr, [&]() -> jobjectArray {
    std::vector<em_record> places;
    return places_in(env, session, places) ? names_of(env, places) : nullptr;
  });
}

JNIEXPORT jlongArray JNICALL Java_ai_edgemem_Native_sessionPlaceNumbers(JNIEnv* env, jclass, jlong session) {
  return guarded<jlongArray>(env, nullptr, [&]() -> jlongArray {
    std::vector<em_record> places;
    return places_in(env, session, places) ? numbers_of(env, places) : nullptr;
  });
}

JNIEXPORT void JNICALL Java_ai_edgemem_Native_sessionDestroy(JNIEnv* env, jclass, jlong session) {
  auto* used = from_handle<em_session>(env, session);
  if (used != nullptr) check(env, em_session_destroy(used));
}

JNIEXPORT void JNICALL Java_ai_edgemem_Native_tflitePlace(JNIEnv* env, jclass, jstring library, jlong interpreter,
                                                          jlong file, jobject arena) {
  void* memory = arena == nullptr ? nullptr : env->GetDirectBufferAddress(arena);
  if (memory == nullptr) {
    refuse(env, "the arena is not a direct buffer");
    return;
  }
  void* handle = nullptr;
  if (library != nullptr) {
    const char* path = env->GetStringUTFChars(library, nullptr);
    if (path == nullptr) return;  // an exception is on its way
    handle = dlopen(path, RTLD_NOW);
    env->ReleaseStringUTFChars(library, path);
    if (handle == nullptr) {
      refuse(env, dlerror());
      return;
    }
  }
  auto* used = from_handle<void>(env, interpreter);
  const auto* plans = from_handle<const em_planfile>(env, file);
  if (used != nullptr && plans != nullptr) {
    check(env, em_tflite_place(handle, used, plans, memory, env->GetDirectBufferCapacity(arena)));
  }
  if (handle != nullptr) dlclose(handle);
}

JNIEXPORT jstring JNICALL Java_ai_edgemem_Native_ortVersion(JNIEnv* env, jclass) {
  return guarded<jstring>(env, nullptr, [&] { return text(env, em_ort_version()); });
}

JNIEXPORT jstring JNICALL Java_ai_edgemem_Native_ortError(JNIEnv* env, jclass) {
  return guarded<jstring>(env, nullptr, [&] { return text(env, em_ort_error()); });
}

JNIEXPORT jlongArray JNICALL Java_ai_edgemem_Native_totals(JNIEnv* env, jclass) {
  return guarded<jlongArray>(env, nullptr, [&] {
    em_totals t;
    em_totals_get(&t);
    return longs(env, {t.contexts, t.arenas, t.arena_bytes, t.heap_live, t.heap_peak, t.reserve_live, t.outside});
  });
}

JNIEXPORT jlong JNICALL Java_ai_edgemem_Native_trim(JNIEnv*, jclass) { return em_trim(); }

}  // extern "C"
