package ai.edgemem.demo

import android.content.res.AssetManager

private const val RUNS = 21
private const val SHOWN = 8

/** What the file's plan says, and what LiteRT does with it. */
fun planned(plan: Plan): String =
    "${plan.name}\n" +
        "planned arena ${plan.arena} bytes (lower bound ${plan.lowerBound}, without sharing ${plan.naive}), " +
        "${plan.strategy}, target ${plan.target}\n" +
        "LiteRT's Android library does not read this plan: it places tensors itself.\n"

/** Runs the model and says where it ran, how long a run took and what came out, or why it did not run. */
fun measured(assets: AssetManager, plan: Plan): String =
    try {
        Network.open(assets, plan).use { network ->
            val times = List(RUNS) { network.run() }.sorted()
            val place = if (network.isOnGpu) {
                "runs on the GPU, all of it"
            } else {
                "RUNS ON THE CPU. The GPU was asked first, and LiteRT said: ${network.gpuRefusal}"
            }
            "$place\n" +
                "median ${times[RUNS / 2] / 1_000} us, least ${times.first() / 1_000} us of $RUNS runs\n" +
                network.outputs(SHOWN).joinToString("\n")
        }
    } catch (failed: Exception) {
        "LiteRT does not run the model: $failed"
    } catch (failed: LinkageError) {
        "LiteRT has no library for this device: $failed"
    }
