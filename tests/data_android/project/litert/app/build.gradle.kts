plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
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

    // LiteRT maps the model's file, and a compressed one cannot be mapped.
    androidResources {
        noCompress += listOf("tflite", "json")
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

kotlin {
    compilerOptions {
        jvmTarget.set(org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_17)
    }
}

dependencies {
    implementation(libs.litert)
    implementation(libs.litert.gpu)
}
