plugins {
    alias(libs.plugins.android.library)
}

android {
    namespace = "ai.edgemem"
    compileSdk = 36
    // From r28 on the NDK links for pages of 16 KiB; the linker's flag below says so for older ones, too.
    ndkVersion = "28.2.13676358"

    defaultConfig {
        minSdk = 24
        consumerProguardFiles("consumer-rules.pro")
        externalNativeBuild {
            cmake {
                arguments += listOf("-DANDROID_STL=c++_static", "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON")
            }
        }
        ndk {
            abiFilters += listOf(@@ABIS@@)
        }
    }

    externalNativeBuild {
        cmake {
            path = file("src/main/cpp/android/native/CMakeLists.txt")
            version = "3.22.1"
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    api(libs.onnxruntime.android)
}
