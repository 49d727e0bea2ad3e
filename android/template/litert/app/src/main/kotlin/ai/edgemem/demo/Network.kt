package ai.edgemem.demo

import android.content.res.AssetManager
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.LiteRtException
import com.google.ai.edge.litert.TensorBuffer

/**
 * The model in LiteRT: on the GPU or, with the reason why not there, on the CPU.
 *
 * The GPU is asked for alone. LiteRT then refuses a model of which it cannot run every operator there. If the CPU is
 * asked for together with it, LiteRT uses the CPU where there is no GPU, and says nothing.
 *
 * Use an object on one thread at a time, and close it.
 */
class Network private constructor(
    private val model: CompiledModel,
    private val kinds: List<TensorInfo>,
    private val results: List<TensorInfo>,
    /** Null on the GPU; else why LiteRT did not take it. */
    val gpuRefusal: String?,
) : AutoCloseable {
    private var inputs: List<TensorBuffer> = emptyList()
    private var outputs: List<TensorBuffer> = emptyList()

    val isOnGpu: Boolean
        get() = gpuRefusal == null

    private fun allocate() {
        inputs = model.createInputBuffers()
        outputs = model.createOutputBuffers()
        check(inputs.size == kinds.size && outputs.size == results.size) {
            "LiteRT has ${inputs.size} inputs and ${outputs.size} outputs, " +
                "and the file ${kinds.size} and ${results.size}"
        }
    }

    /** Fills the inputs with the same values in every run, so that runs can be compared. */
    fun fillInputs() {
        for ((buffer, info) in inputs.zip(kinds)) {
            val count = info.elements
            when (info.kind) {
                Kind.FLOAT -> buffer.writeFloat(FloatArray(count) { it % 256 / 255f })
                Kind.INT -> buffer.writeInt(IntArray(count) { it % 2 })
                Kind.BYTE -> buffer.writeInt8(ByteArray(count) { it.toByte() })
                Kind.BOOLEAN -> buffer.writeBoolean(BooleanArray(count) { it % 2 == 1 })
                Kind.OTHER -> throw IllegalArgumentException("no way to set input ${info.name} of ${info.type} here")
            }
        }
    }

    /** Runs the model and waits for its outputs. Gives the nanoseconds that it took. */
    fun run(): Long {
        val begin = System.nanoTime()
        model.run(inputs, outputs)
        for ((buffer, info) in outputs.zip(results)) {
            values(buffer, info) // the run on a GPU is over when its outputs can be read
        }
        return System.nanoTime() - begin
    }

    /** The first `most` values of each output, as text. */
    fun outputs(most: Int): List<String> =
        outputs.zip(results).map { (buffer, info) ->
            "${info.name}: ${values(buffer, info).take(most).joinToString()}"
        }

    private fun values(buffer: TensorBuffer, info: TensorInfo): List<Any> =
        when (info.kind) {
            Kind.FLOAT -> buffer.readFloat().asList()
            Kind.INT -> buffer.readInt().asList()
            Kind.BYTE -> buffer.readInt8().asList()
            Kind.BOOLEAN -> buffer.readBoolean().asList()
            Kind.OTHER -> listOf(info.type)
        }

    override fun close() {
        (inputs + outputs).forEach { it.close() }
        model.close()
    }

    companion object {
        /** Opens the model of the assets. Throws LiteRtException if the CPU does not take it either. */
        fun open(assets: AssetManager, plan: Plan): Network =
            try {
                on(Accelerator.GPU, null, assets, plan)
            } catch (refused: LiteRtException) {
                on(Accelerator.CPU, refused.message ?: refused.toString(), assets, plan)
            }

        private fun on(accelerator: Accelerator, refusal: String?, assets: AssetManager, plan: Plan): Network {
            val model = CompiledModel.create(assets, plan.model, CompiledModel.Options(accelerator))
            val network = Network(model, plan.inputs, plan.outputs, refusal)
            try {
                network.allocate()
                network.fillInputs()
                network.run() // a GPU may refuse in the first run only
            } catch (failed: Exception) {
                network.close()
                throw failed
            }
            return network
        }
    }
}
