package ai.edgemem.demo

import org.json.JSONArray
import org.json.JSONObject

/** Kinds of values that LiteRT's TensorBuffer reads and writes. */
enum class Kind { FLOAT, INT, BYTE, BOOLEAN, OTHER }

/** An input or output of the model, with edgemem's name of its type. */
class TensorInfo(val name: String, val type: String, val elements: Int) {
    val kind: Kind
        get() = when (type) {
            "float32" -> Kind.FLOAT
            "int32" -> Kind.INT
            "int8", "uint8" -> Kind.BYTE
            "bool" -> Kind.BOOLEAN
            else -> Kind.OTHER
        }
}

/** A tensor's place: bytes `offset` to `offset + size` of the arena, from operator `first` to operator `last`. */
class Place(val name: String, val first: Int, val last: Int, val offset: Long, val size: Long)

/** What edgemem planned: the asset edgemem.json, which `edgemem android project` wrote. Sizes are bytes. */
class Plan(
    val model: String,
    val name: String,
    val inputs: List<TensorInfo>,
    val outputs: List<TensorInfo>,
    val strategy: String,
    val target: String,
    val arena: Long,
    val lowerBound: Long,
    val naive: Long,
    val steps: Int,
    val places: List<Place>,
) {
    companion object {
        /** Reads the asset's text. Throws org.json.JSONException if it says something else. */
        fun of(text: String): Plan {
            val data = JSONObject(text)
            val plan = data.getJSONObject("plan")
            return Plan(
                model = data.getString("model"),
                name = data.getString("name"),
                inputs = data.getJSONArray("inputs").objects().map(::tensor),
                outputs = data.getJSONArray("outputs").objects().map(::tensor),
                strategy = plan.getString("strategy"),
                target = plan.getString("target"),
                arena = plan.getLong("arena"),
                lowerBound = plan.getLong("lower_bound"),
                naive = plan.getLong("naive"),
                steps = plan.getInt("steps"),
                places = plan.getJSONArray("places").objects().map {
                    Place(
                        it.getString("name"),
                        it.getInt("first"),
                        it.getInt("last"),
                        it.getLong("offset"),
                        it.getLong("size"),
                    )
                },
            )
        }

        private fun tensor(data: JSONObject): TensorInfo {
            val shape = data.getJSONArray("shape")
            val elements = (0 until shape.length()).fold(1) { count, axis -> count * shape.getInt(axis) }
            return TensorInfo(data.getString("name"), data.getString("dtype"), elements)
        }

        private fun JSONArray.objects(): List<JSONObject> = List(length()) { getJSONObject(it) }
    }
}
