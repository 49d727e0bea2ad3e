package ai.edgemem.demo

import android.app.Activity
import android.os.Bundle
import android.view.ViewGroup.LayoutParams
import android.widget.LinearLayout
import android.widget.ScrollView
import android.widget.TextView
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/** Shows where LiteRT runs the model, how long a run takes, what comes out, and the plan that the file carries. */
class MainActivity : Activity() {
    private val worker: ExecutorService = Executors.newSingleThreadExecutor() // LiteRT is used on this thread alone

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val text = TextView(this)
        val column = LinearLayout(this)
        column.orientation = LinearLayout.VERTICAL
        column.addView(text)
        val scroll = ScrollView(this)
        scroll.addView(column)
        setContentView(scroll)
        try {
            val plan = Plan.of(assets.open("edgemem.json").bufferedReader().use { it.readText() })
            column.addView(MemoryMapView(this, plan), LayoutParams(LayoutParams.MATCH_PARENT, MAP_HEIGHT))
            text.text = planned(plan) + "\nrunning ..."
            worker.execute {
                val report = planned(plan) + "\n" + measured(assets, plan)
                runOnUiThread { text.text = report }
            }
        } catch (failed: Exception) {
            text.text = "$failed"
        }
    }

    override fun onDestroy() {
        worker.shutdown()
        super.onDestroy()
    }

    private companion object {
        const val MAP_HEIGHT = 900 // pixels
    }
}
