import ai.edgemem.demo.Place
import ai.edgemem.demo.Plan
import ai.edgemem.demo.TensorInfo
import ai.edgemem.demo.measured
import ai.edgemem.demo.planned
import android.content.res.AssetManager
import com.google.ai.edge.litert.CompiledModel

/** Runs the project's report on the stand-in for LiteRT: with a GPU, without one, and with one that refuses a run. */
fun main() {
    val tensor = TensorInfo("x", "float32", 4)
    val plan = Plan(
        "model.tflite", "net", listOf(tensor), listOf(tensor),
        "strip_packing", "litert", 192, 128, 256, 2, listOf(Place("x", 0, 1, 0, 16)),
    )
    println(planned(plan))
    for ((gpu, run) in listOf(null to null, "no GPU here" to null, null to "the run failed")) {
        CompiledModel.gpuFailure = gpu
        CompiledModel.runFailure = run
        CompiledModel.log.clear()
        CompiledModel.made.clear()
        println("--- ${measured(AssetManager(), plan).replace(Regex("[0-9]+ us"), "N us")}")
        println(CompiledModel.log.distinct().joinToString("; ") + "; closed: ${CompiledModel.allClosed()}")
    }
}
