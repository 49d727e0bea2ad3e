package com.google.ai.edge.litert

import android.content.res.AssetManager

enum class Accelerator { NONE, CPU, GPU, NPU }

enum class Status { ErrorCompilation }

class LiteRtException(val status: Status, message: String) : Exception(message)

abstract class JniHandle : AutoCloseable {
    var isClosed = false

    override fun close() {
        check(!isClosed) { "closed twice" }
        isClosed = true
    }
}

class Environment private constructor() : JniHandle()

class TensorBuffer internal constructor() : JniHandle() {
    private var floats = FloatArray(4)

    fun writeFloat(data: FloatArray) {
        floats = data
    }

    fun readFloat(): FloatArray = floats

    external fun writeInt(data: IntArray)

    external fun writeInt8(data: ByteArray)

    external fun writeBoolean(data: BooleanArray)

    external fun readInt(): IntArray

    external fun readInt8(): ByteArray

    external fun readBoolean(): BooleanArray
}

/** A model of one input and one output of floats, which gives twice its input; what was asked for is in `log`. */
class CompiledModel private constructor() : JniHandle() {
    private val buffers = mutableListOf<TensorBuffer>()

    class Options(vararg val accelerators: Accelerator) {
        companion object {
            val CPU = Options(Accelerator.CPU)
        }
    }

    fun createInputBuffers(signatureIndex: Int = 0): List<TensorBuffer> = buffer(signatureIndex)

    fun createOutputBuffers(signatureIndex: Int = 0): List<TensorBuffer> = buffer(signatureIndex)

    private fun buffer(signatureIndex: Int): List<TensorBuffer> {
        require(signatureIndex == 0)
        return listOf(TensorBuffer()).also { buffers += it }
    }

    fun run(inputs: List<TensorBuffer>, outputs: List<TensorBuffer>, signatureIndex: Int = 0) {
        require(signatureIndex == 0)
        log += "run"
        if (runFailure != null && isOnGpu) throw LiteRtException(Status.ErrorCompilation, runFailure!!)
        outputs.single().writeFloat(inputs.single().readFloat().map { it * 2 }.toFloatArray())
    }

    private var isOnGpu = false

    companion object {
        val log = mutableListOf<String>()
        val made = mutableListOf<CompiledModel>()
        var gpuFailure: String? = null
        var runFailure: String? = null

        fun allClosed() = made.all { model -> model.isClosed && model.buffers.all { it.isClosed } }

        fun create(
            assetManager: AssetManager,
            assetName: String,
            options: Options = Options.CPU,
            optionalEnv: Environment? = null,
        ): CompiledModel {
            requireNotNull(assetManager)
            require(optionalEnv == null)
            log += "$assetName on ${options.accelerators.joinToString("+")}"
            val isOnGpu = Accelerator.GPU in options.accelerators
            if (isOnGpu && gpuFailure != null) throw LiteRtException(Status.ErrorCompilation, gpuFailure!!)
            return CompiledModel().also {
                it.isOnGpu = isOnGpu
                made += it
            }
        }
    }
}
