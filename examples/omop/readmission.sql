-- One row for each person with a stay in hospital (OMOP concept 9201): the first stay, what was
-- known when it began, and whether another one began within 30 days of its end. Every value
-- follows from the records of that person alone.
SELECT
  first.person_id,
  extract(year FROM first.visit_start_date)::integer - person.year_of_birth AS age,
  CASE person.gender_concept_id WHEN 8507 THEN 'male' WHEN 8532 THEN 'female' ELSE 'other' END AS sex,
  first.visit_end_date - first.visit_start_date AS days,
  (
    SELECT count(*) FROM condition_occurrence AS had
    WHERE had.person_id = first.person_id
      AND had.condition_start_date < first.visit_start_date
      AND had.condition_start_date >= first.visit_start_date - 730
  ) AS conditions,
  CASE WHEN EXISTS (
    SELECT FROM visit_occurrence AS next
    WHERE next.person_id = first.person_id AND next.visit_concept_id = 9201
      AND next.visit_start_date > first.visit_end_date
      AND next.visit_start_date <= first.visit_end_date + 30
  ) THEN 'yes' ELSE 'no' END AS readmitted
FROM (
  SELECT DISTINCT ON (person_id) person_id, visit_start_date, visit_end_date
  FROM visit_occurrence
  WHERE visit_concept_id = 9201
  ORDER BY person_id, visit_start_date, visit_occurrence_id
) AS first
JOIN person USING (person_id)
ORDER BY first.person_id
