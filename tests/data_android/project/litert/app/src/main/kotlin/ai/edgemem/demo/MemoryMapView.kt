package ai.edgemem.demo

import android.content.Context
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.view.View

/** The plan as a picture: operators from left to right, bytes of the arena from the bottom up, a block for a tensor. */
class MemoryMapView(context: Context, private val plan: Plan) : View(context) {
    private val fill = Paint().apply { style = Paint.Style.FILL }
    private val line = Paint().apply {
        style = Paint.Style.STROKE
        color = Color.DKGRAY
    }

    override fun onDraw(canvas: Canvas) {
        super.onDraw(canvas)
        if (plan.steps == 0 || plan.arena == 0L) return
        val column = width.toFloat() / plan.steps
        val row = height.toFloat() / plan.arena
        plan.places.forEachIndexed { number, place ->
            val left = place.first * column
            val right = (place.last + 1) * column
            val top = height - (place.offset + place.size) * row
            val bottom = height - place.offset * row
            fill.color = Color.HSVToColor(floatArrayOf(number * GOLDEN_ANGLE % 360f, 0.45f, 0.95f))
            canvas.drawRect(left, top, right, bottom, fill)
            canvas.drawRect(left, top, right, bottom, line)
        }
    }

    private companion object {
        const val GOLDEN_ANGLE = 137.5f // neighbours get colours that differ
    }
}
