plugins {
    alias(libs.plugins.android.application)
}

android {
    namespace = "ai.edgemem.demo"
    compileSdk = 36

    defaultConfig {
        applicationId = "ai.edgemem.demo"
        minSdk = 24
        targetSdk = 35
        versionCode = 1
        versionName = "VERSION"
        ndk {
            abiFilters += listOf("arm64-v8a", "x86_64")
        }
    }

    androidResources {
        noCompress += listOf("onnx", "json")
    }

    // Libraries stay uncompressed in the APK. From 8.5.1 on this plugin aligns them to pages of 16 KiB.
    packaging {
        jniLibs {
            useLegacyPackaging = false
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    implementation(files("libs/edgemem.aar"))
    implementation(libs.onnxruntime.android)
}
